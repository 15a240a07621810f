"""What is special to Spark Connect: large commands are one message, sessions end by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _commands
from spark_dynamic_filters.testing._modes import SparkApplication
from support.user_filters import ids

pytestmark = [pytest.mark.client, pytest.mark.only("connect"), pytest.mark.timeout(170)]


def _random_bitmap(containers: int) -> tuple[bytes, np.ndarray]:
    """A 32-bit roaring bitmap of random bits, 8 KiB a container, in its portable serialization; and its first
    65,536 bits."""
    bits = np.random.default_rng(1).integers(0, 1 << 64, (containers, 1024), np.uint64, endpoint=False)
    counts = np.bitwise_count(bits).sum(axis=1)
    header = np.empty((containers, 2), "<u2")
    header[:, 0], header[:, 1] = np.arange(containers), counts - 1
    first = 8 + 8 * containers
    offsets = (first + 8192 * np.arange(containers)).astype("<u4")
    data = np.array([12346, containers], "<u4").tobytes() + header.tobytes() + offsets.tobytes()
    return data + bits.astype("<u8").tobytes(), np.unpackbits(bits[0].view(np.uint8), bitorder="little")


def test_the_largest_update_fits_one_message(spark: SparkSession, t: str) -> None:
    containers = _commands.MAX_BYTES // 8200  # with the container's header
    data, bits = _random_bitmap(containers)
    larger, _ = _random_bitmap(containers + 1)
    with sdf.create_filter(spark, "huge", "bigint") as f:
        f.update(sdf.bitmap(data))
        with pytest.raises(sdf.DynamicFiltersError, match="at most 104,857,600 can be sent"):
            f.update(sdf.bitmap(larger))
        assert f.generation == 1
        assert f.snapshot().size_bytes > 0.99 * _commands.MAX_BYTES
        assert ids(spark.table(t).where(f.matches("seq")), "seq") == np.flatnonzero(bits[:4000]).tolist()


def test_filters_end_with_their_session(spark_application: SparkApplication, t: str) -> None:
    other, third = spark_application.new_session(), spark_application.new_session()
    f = sdf.create_filter(other, "mine", "bigint")
    f.update(sdf.isin([1]))
    spark_application.close_session(other)
    assert third.sql("SELECT * FROM dynamic_user_filters()").count() == 0
    f.close()
    f.close()

    def body() -> None:
        with sdf.create_filter(third, "mine", "bigint"):
            spark_application.close_session(third)
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        body()

"""What is special to Spark Connect: large commands come in pieces, sessions end by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _commands
from support.user_filters import ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing._modes import SparkApplication

pytestmark = [pytest.mark.client, pytest.mark.timeout(170)]


@pytest.fixture(autouse=True)
def _connect(spark_mode: str) -> None:
    if spark_mode != "connect":
        pytest.skip("of Spark Connect only")


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


def test_a_bitmap_of_64_mebibytes(spark: SparkSession, t: str) -> None:
    data, bits = _random_bitmap(8192)
    assert len(data) > 64 << 20
    with sdf.create_filter(spark, "huge", "bigint") as f:
        f.update(sdf.bitmap(data))
        assert f.snapshot().size_bytes > 64 << 20
        assert ids(spark.table(t).where(f.matches("seq")), "seq") == np.flatnonzero(bits[:4000]).tolist()


def test_pieces_that_do_not_fit_together(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with sdf.create_filter(spark, "pieces", "bigint") as f:
        form = sdf.isin(range(0, 2_000_000, 2))
        whole = _commands._pieces
        spoilt = {
            "missing": lambda pieces: pieces[:1] + pieces[2:],
            "damaged": lambda pieces: [*pieces[:-1], pieces[-1][:-1] + bytes([pieces[-1][-1] ^ 1])],
        }
        for name, spoil in spoilt.items():
            with monkeypatch.context() as patch:
                patch.setattr(_commands, "PIECE_BYTES", 200_000)
                patch.setattr(_commands, "_pieces", lambda e, s=spoil: iter(s(list(whole(e)))))
                with pytest.raises(sdf.DynamicFiltersError, match="in pieces is refused"):
                    f.update(form)
            assert f.generation == 0, name
        with monkeypatch.context() as patch:
            patch.setattr(_commands, "PIECE_BYTES", 200_000)
            # A piece may come twice.
            patch.setattr(_commands, "_pieces", lambda e: (p for p in whole(e) for _ in range(2)))
            f.update(form)
            assert f.generation == 1
        assert f.snapshot().values == 1_000_000


def test_filters_end_with_their_session(spark_application: SparkApplication, t: str) -> None:
    other = spark_application.new_session()
    sdf.create_filter(other, "mine", "bigint").update(sdf.isin([1]))
    spark_application.close_session(other)
    again = spark_application.new_session()
    try:
        assert again.sql("SELECT * FROM dynamic_user_filters()").count() == 0
    finally:
        spark_application.close_session(again)


def test_closing_a_filter_after_its_session(spark_application: SparkApplication) -> None:
    other = spark_application.new_session()
    f = sdf.create_filter(other, "mine", "bigint")
    spark_application.close_session(other)
    f.close()
    f.close()
    third = spark_application.new_session()

    def body() -> None:
        with sdf.create_filter(third, "mine", "bigint"):
            spark_application.close_session(third)
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        body()

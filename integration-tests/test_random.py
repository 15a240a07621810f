"""Random queries over random data, from fixed seeds: with filters the rows are those without."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import random_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing import SameResult

QUERIES = 20


@pytest.fixture(scope="module")
def random_data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A view over files of several writers, among them one whose rows are ordered by a key."""
    folder = random_queries.write(tmp_path_factory.mktemp("random"))
    spark.read.parquet(str(folder)).createOrReplaceTempView("random_data")
    return "random_data"


@pytest.mark.parametrize("seed", range(QUERIES))
def test_random_query(random_data: str, assert_same_result: Callable[..., SameResult], seed: int) -> None:
    query, keys = random_queries.topk(random.Random(seed), random_data)
    assert_same_result(query, ordered=True, keys=keys)


def test_most_random_queries_are_filtered(
    random_data: str, assert_same_result: Callable[..., SameResult]
) -> None:
    # Guards the test above against comparing Spark with itself.
    fired = 0
    for seed in range(0, QUERIES, 3):
        query, keys = random_queries.topk(random.Random(seed), random_data)
        fired += assert_same_result(query, ordered=True, keys=keys).fired()
    assert fired >= 3


def test_rows_written_by_spark_itself(
    spark: SparkSession, random_data: str, tmp_path: Path, assert_same_result: Callable[..., SameResult]
) -> None:
    spark.table(random_data).write.option("parquet.block.size", 16_384).parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("rewritten")
    for seed in (100, 101, 102):
        query, keys = random_queries.topk(random.Random(seed), "rewritten")
        assert_same_result(query, ordered=True, keys=keys)

"""Every atomic type as the key of a TopK: the rows are Spark's own, and rows were skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import tables
from support.checks import ORDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing import SameResult

INTERVALS = {
    "c_day_time": "make_dt_interval(0, 0, 0, id)",
    "c_year_month": "make_ym_interval(0, CAST(id AS INT))",
}


@pytest.fixture(scope="module")
def intervals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A view with the interval types, which only Spark writes."""
    path = tmp_path_factory.mktemp("intervals") / "data"
    columns = [f"{make} AS {name}" for name, make in INTERVALS.items()]
    frame = (
        spark.range(0, 4_000, 1, 4).selectExpr("(id * 7919) % 4001 - 2000 AS id").selectExpr("id", *columns)
    )
    frame.write.option("parquet.block.size", 4_096).parquet(str(path))
    spark.read.parquet(str(path)).createOrReplaceTempView("intervals")
    return "intervals"


@pytest.mark.core
@pytest.mark.parametrize("column", tables.TYPES)
def test_each_type_in_each_order(t: str, assert_same_result: Callable[..., SameResult], column: str) -> None:
    for order in ORDERS:
        query = f"SELECT *, {column} AS k FROM {t} ORDER BY k {order} LIMIT 7"
        assert_same_result(query, ordered=True, keys=["k"])


@pytest.mark.parametrize("column", tables.TYPES)
def test_rows_in_random_order(
    shuffled: str, assert_same_result: Callable[..., SameResult], spark_mode: str, column: str
) -> None:
    # Each row group has one page. A Connect server collects a TopK through an exchange, below which a scan
    # skips rows only if that spares pages.
    fires = None if spark_mode == "connect" else True
    # With so many rows the bound lies among the values also where nulls come first.
    for order in ("ASC NULLS FIRST", "DESC NULLS LAST"):
        query = f"SELECT *, {column} AS k FROM {shuffled} ORDER BY k {order} LIMIT 300"
        assert_same_result(query, ordered=True, keys=["k"], fires=fires)


@pytest.mark.parametrize("column", INTERVALS)
def test_intervals(intervals: str, assert_same_result: Callable[..., SameResult], column: str) -> None:
    for order in ORDERS:
        query = f"SELECT id, CAST({column} AS STRING) AS k FROM {intervals} ORDER BY {column} {order} LIMIT 7"
        assert_same_result(query, ordered=True)


@pytest.mark.parametrize(
    "column", ["c_boolean", "c_int", "c_decimal_big", "c_double", "c_string", "c_timestamp"]
)
def test_without_statistics_and_page_index(
    spark: SparkSession, tmp_path: Path, assert_same_result: Callable[..., SameResult], column: str
) -> None:
    table = tables.all_types(rows=2_000, seed=3)
    path = tables.write(table, tmp_path / "plain", write_statistics=False)
    frame = spark.read.parquet(str(path))
    query = frame.orderBy(frame[column].desc_nulls_last()).limit(5)
    assert_same_result(query, ordered=True, keys=[column])


def test_all_null_column(
    spark: SparkSession, tmp_path: Path, assert_same_result: Callable[..., SameResult]
) -> None:
    path = tables.write(tables.all_types(rows=2_000, nulls=1.0), tmp_path / "nulls")
    spark.read.parquet(str(path)).createOrReplaceTempView("all_null")
    for order in ORDERS:
        # Where nulls come first, a heap full of them is beaten by nothing.
        fires = "FIRST" in order
        query = f"SELECT * FROM all_null ORDER BY c_int {order} LIMIT 5"
        assert_same_result(query, keys=["c_int"], fires=fires)

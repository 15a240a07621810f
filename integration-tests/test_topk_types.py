"""Every atomic type as the key of a TopK: the rows are Spark's own, and rows were skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import tables
from support.checks import orders_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing import SameResult


@pytest.mark.core
@pytest.mark.parametrize("column", tables.TYPES)
def test_each_type(t: str, assert_same_result: Callable[..., SameResult], column: str) -> None:
    for order in orders_of(column):
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

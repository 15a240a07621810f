"""Edges of a TopK: limits, empty inputs, NaN, signed zeros, equal keys, and running the same plan again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from support import tables
from support.checks import ORDERS, Check, assert_rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.core
@pytest.mark.parametrize("limit", [1, 2, 199, 3_999, 4_000, 4_001, 50_000])
def test_limits(t: str, assert_same_result: Check, limit: int) -> None:
    result = assert_same_result(
        f"SELECT * FROM {t} ORDER BY id LIMIT {limit}", ordered=True, fires=limit < 1_000
    )
    assert len(result.on) == min(limit, tables.ROWS)


def test_limit_above_the_setting(spark: SparkSession, t: str, assert_same_result: Check) -> None:
    with sdf.conf(spark).override(**{"topk.maxLimit": 10}):
        assert_same_result(f"SELECT * FROM {t} ORDER BY id LIMIT 10", ordered=True)
        result = assert_same_result(f"SELECT * FROM {t} ORDER BY id LIMIT 11", ordered=True, fires=False)
        assert_rejected(result, "limit", "11", "spark.dynamicFilters.topk.maxLimit")
        with_offset = assert_same_result(
            f"SELECT * FROM {t} ORDER BY id LIMIT 5 OFFSET 6", ordered=True, fires=False
        )
        assert_rejected(with_offset, "limit", "11")


def test_empty_tables(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    empty = tables.all_types(rows=0)
    spark.read.parquet(str(tables.write(empty, tmp_path / "rows"))).createOrReplaceTempView("no_rows")
    assert assert_same_result("SELECT * FROM no_rows ORDER BY id LIMIT 10", fires=False).on == []
    (tmp_path / "files").mkdir()
    spark.read.schema("id BIGINT").parquet(str(tmp_path / "files")).createOrReplaceTempView("no_files")
    assert assert_same_result("SELECT * FROM no_files ORDER BY id LIMIT 10", fires=False).on == []


def test_empty_files_among_others(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    for i, rows in enumerate([0, 500, 0, 500]):
        tables.write(tables.all_types(rows=rows, seed=i), tmp_path / str(i))
    spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path)).createOrReplaceTempView(
        "some_empty"
    )
    assert_same_result("SELECT * FROM some_empty ORDER BY c_bigint LIMIT 10", keys=["c_bigint"])


@pytest.mark.core
@pytest.mark.parametrize(("kind", "statistics"), [("float", True), ("double", False)])
def test_nan_and_signed_zeros(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check, kind: str, statistics: bool
) -> None:
    # NaN is Spark's greatest value but is left out of Parquet's statistics; -0.0 equals 0.0 but has other
    # bytes.
    nan = float("nan")
    blocks = (
        [nan] * 200,
        [-0.0, 0.0] * 100,
        [1.0, nan] * 100,
        [-1.0, None] * 100,
        [0.0] * 200,
        [nan, None] * 100,
    )
    values = [v for block in blocks for v in block] * 3
    arrow = pa.float32() if kind == "float" else pa.float64()
    table = pa.table({"id": pa.array(range(len(values))), "f": pa.array(values, arrow)})
    path = tables.write(table, tmp_path / "floats", write_statistics=statistics)
    spark.read.parquet(str(path)).createOrReplaceTempView("floats")
    for order in ORDERS:
        for limit in (3, 900) if statistics else (3,):
            query = f"SELECT * FROM floats ORDER BY f {order} LIMIT {limit}"
            assert_same_result(query, ordered=True, keys=["f"])
    assert_same_result("SELECT * FROM floats ORDER BY f DESC, id LIMIT 50", ordered=True)


def test_all_keys_equal(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    table = pa.table(
        {"k": pa.array([7] * 4_000), "id": pa.array(range(4_000)), "wide": pa.array(["x" * 50] * 4_000)}
    )
    spark.read.parquet(str(tables.write(table, tmp_path / "equal"))).createOrReplaceTempView("equal")
    # Ties are free with one key, so nothing more is needed once the limit is reached.
    assert_same_result("SELECT * FROM equal ORDER BY k LIMIT 5", keys=["k"])
    # With a second key every tie on the first one must be seen.
    result = assert_same_result("SELECT * FROM equal ORDER BY k, id DESC LIMIT 5", ordered=True, fires=False)
    assert [row["id"] for row in result.on] == [3_999, 3_998, 3_997, 3_996, 3_995]

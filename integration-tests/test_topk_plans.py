"""TopKs: shapes between the TopK and the scan, limits, ties, NaN, and files of different writers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import tables
from support.checks import ORDERS, Check, assert_rejected
from support.joins import ONE_SCAN_TASK, ROW_BASED, settings

# Queries over `t` whose rows are unique by their sort keys, and whose filter has to reach the scan.
SHAPES = {
    "three_keys": "SELECT * FROM t ORDER BY c_boolean, c_tinyint DESC NULLS FIRST, id DESC LIMIT 30",
    "computed_beside_key": "SELECT id, upper(c_string) AS u, grp + 1 AS n FROM t ORDER BY id LIMIT 10",
    "filter_with_nulls": "SELECT * FROM t WHERE c_int IS NULL OR c_date IS NULL ORDER BY id LIMIT 3",
}


@pytest.fixture(autouse=True)
def _view(t: str) -> None:
    """Queries name `t`."""


@pytest.mark.core
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(assert_same_result: Check, shape: str) -> None:
    assert_same_result(SHAPES[shape], ordered=True)


def test_limit_above_the_setting(spark: SparkSession, assert_same_result: Check) -> None:
    with sdf.conf(spark).override(**{"topk.maxLimit": 10}):
        assert_same_result("SELECT * FROM t ORDER BY id LIMIT 10", ordered=True)
        for limit in ("LIMIT 11", "LIMIT 5 OFFSET 6"):
            result = assert_same_result(f"SELECT * FROM t ORDER BY id {limit}", ordered=True, fires=False)
            assert_rejected(result, "limit", "11", "spark.dynamicFilters.topk.maxLimit")


def test_empty_tables(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    empty = tables.all_types(rows=0)
    spark.read.parquet(str(tables.write(empty, tmp_path / "rows"))).createOrReplaceTempView("no_rows")
    (tmp_path / "files").mkdir()
    spark.read.schema("id BIGINT").parquet(str(tmp_path / "files")).createOrReplaceTempView("no_files")
    for name in ("no_rows", "no_files"):
        assert assert_same_result(f"SELECT * FROM {name} ORDER BY id LIMIT 10", fires=False).on == []


def test_empty_files_among_others(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    for i, rows in enumerate([0, 500, 0, 500]):
        tables.write(tables.all_types(rows=rows, seed=i), tmp_path / str(i))
    frame = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path))
    frame.createOrReplaceTempView("some_empty")
    assert_same_result("SELECT * FROM some_empty ORDER BY c_bigint LIMIT 10", keys=["c_bigint"])


@pytest.mark.core
def test_nan_and_signed_zeros(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    # NaN is Spark's greatest value but is left out of Parquet's statistics; -0.0 equals 0.0 but has other
    # bytes.
    nan = float("nan")
    blocks = [[nan] * 200, [-0.0, 0.0] * 100, [1.0, nan] * 100, [-1.0, None] * 100, [0.0] * 200]
    values = [v for block in [*blocks, [nan, None] * 100] for v in block] * 3
    table = pa.table({"id": pa.array(range(len(values))), "f": pa.array(values, pa.float32())})
    spark.read.parquet(str(tables.write(table, tmp_path / "floats"))).createOrReplaceTempView("floats")
    for order, limit in zip(ORDERS, (3, 900, 900, 3), strict=True):
        query = f"SELECT * FROM floats ORDER BY f {order} LIMIT {limit}"
        assert_same_result(query, ordered=True, keys=["f"])
    assert_same_result("SELECT * FROM floats ORDER BY f DESC, id LIMIT 50", ordered=True)


def test_column_missing_from_some_files(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check
) -> None:
    tables.write(tables.all_types(), tmp_path / "data" / "v=1")
    tables.write(tables.all_types(seed=2).drop_columns(["c_int"]), tmp_path / "data" / "v=2")
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "data"))
    frame.createOrReplaceTempView("evolved")
    for order in ORDERS[:2]:
        query = f"SELECT * FROM evolved ORDER BY c_int {order} LIMIT 10"
        assert_same_result(query, ordered=True, keys=["c_int"])


def test_columns_read_as_other_types_and_names(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check
) -> None:
    table = tables.all_types().select(["seq", "c_int", "c_float"]).rename_columns({"c_int": "C_Int"})
    path = tables.write(table, tmp_path / "data")
    frame = spark.read.schema("SEQ BIGINT, c_int BIGINT, c_float DOUBLE").parquet(str(path))
    frame.createOrReplaceTempView("widened")
    for key, order in (("c_int", "ASC"), ("c_float", "DESC")):
        query = f"SELECT * FROM widened ORDER BY {key} {order} NULLS LAST, seq LIMIT 10"
        assert_same_result(query, ordered=True)


def test_row_based_reader(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    path = tables.write(tables.all_types(), tmp_path / "known")
    # Bounds of younger files are not remembered.
    for file in path.iterdir():
        os.utime(file, (time.time() - 900,) * 2)
    spark.read.parquet(str(path)).createOrReplaceTempView("known")
    query = "SELECT * FROM known ORDER BY seq LIMIT 10"
    assert_same_result(query, ordered=True)
    with settings(spark, ROW_BASED, ONE_SCAN_TASK):
        assert_same_result(query, ordered=True)


def test_writing_a_topk(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "best")
    spark.sql("SELECT * FROM t ORDER BY id LIMIT 100").write.parquet(target)
    assert [row["id"] for row in spark.read.parquet(target).orderBy("id").collect()] == list(range(100))


KEYS = ("c_int", "c_string", "c_decimal_big", "c_timestamp", "c_double", "c_date")


def _check_keys(spark: SparkSession, check: Check, path: Path, *keys: str) -> None:
    spark.read.parquet(str(path)).createOrReplaceTempView("written")
    for i, key in enumerate(keys):
        order = ("ASC NULLS LAST", "DESC NULLS LAST")[i % 2]
        check(f"SELECT * FROM written ORDER BY {key} {order} LIMIT 5", ordered=True, keys=[key])


@pytest.mark.parametrize("writer", tables.PYARROW_WRITERS)
def test_files_of_pyarrow(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check, writer: str
) -> None:
    path = tables.write(tables.all_types(seed=5), tmp_path / writer, **tables.PYARROW_WRITERS[writer])
    # By turns; bloom filters are of c_string, and one writer has timestamps of its own.
    special = {"bloom_filter": "c_string", "int96": "c_timestamp"}
    i = list(tables.PYARROW_WRITERS).index(writer)
    _check_keys(spark, assert_same_result, path, special.get(writer, KEYS[i % len(KEYS)]))


def test_files_of_duckdb(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    duckdb = pytest.importorskip("duckdb")
    # Its row groups have at least 2,048 rows.
    table = tables.all_types(rows=16_384, seed=6, block=2_048)
    for i in range(4):
        part = table.slice(i * 4_096, 4_096)  # noqa: F841 - the statement finds it by its name
        duckdb.sql(
            f"COPY (SELECT * FROM part) TO '{tmp_path}/part-{i}.parquet' "
            "(FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION zstd)"
        )
    _check_keys(spark, assert_same_result, tmp_path, "c_int", "c_timestamp", "c_string")


def test_pages_are_skipped(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    # Two files of one row group each, both over the whole range of the key, read by one task: what the
    # first one teaches leaves only the last pages of the second one.
    table = tables.all_types()
    for i in range(2):
        half = table.take(list(range(i, tables.ROWS, 2)))
        options = {"write_page_index": True, "max_rows_per_page": 20, "write_batch_size": 20}
        pq.write_table(half, tmp_path / f"part-{i}.parquet", **options)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("pages")
    with settings(spark, ONE_SCAN_TASK):
        result = assert_same_result("SELECT * FROM pages ORDER BY seq DESC LIMIT 10", ordered=True)
    (scan,) = result.scans
    assert (scan["files_pruned"], scan["row_groups_pruned"]) == (0, 0), result.analysis
    assert scan["rows_pruned"] > tables.ROWS // 3, result.analysis

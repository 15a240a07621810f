"""A TopK over files of different writers, encodings and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from support import joins, tables
from support.checks import Check, assert_row_groups_pruned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KEYS = ("c_int", "c_decimal_big", "c_double", "c_string", "c_timestamp", "c_date")


def _check_keys(check: Check, view: str, keys: tuple[str, ...] = KEYS) -> None:
    for i, key in enumerate(keys):
        order = ("ASC NULLS LAST", "DESC NULLS LAST")[i % 2]
        query = f"SELECT * FROM {view} ORDER BY {key} {order} LIMIT 5"
        check(query, ordered=True, keys=[key])


@pytest.mark.parametrize("writer", tables.PYARROW_WRITERS)
def test_pyarrow(spark: SparkSession, tmp_path: Path, assert_same_result: Check, writer: str) -> None:
    path = tables.write(tables.all_types(seed=5), tmp_path / writer, **tables.PYARROW_WRITERS[writer])
    spark.read.parquet(str(path)).createOrReplaceTempView("pyarrow_files")
    # Half of them, by turns: bloom filters are of c_string, and one writer has timestamps of its own.
    half = KEYS[(list(tables.PYARROW_WRITERS).index(writer) + 1) % 2 :: 2]
    assert {"bloom_filter": "c_string", "int96": "c_timestamp"}.get(writer, half[0]) in half
    _check_keys(assert_same_result, "pyarrow_files", half)


@pytest.mark.core
@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_spark(
    spark: SparkSession, t: str, tmp_path: Path, assert_same_result: Check, timestamps: str
) -> None:
    with joins.settings(spark, {"spark.sql.parquet.outputTimestampType": timestamps}):
        written = spark.table(t).write
        written.option("parquet.block.size", 32_768).parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("spark_files")
    _check_keys(assert_same_result, "spark_files")


def test_spark_with_bloom_filter_and_v2_pages(
    spark: SparkSession, t: str, tmp_path: Path, assert_same_result: Check
) -> None:
    writer = spark.table(t).write.option("parquet.block.size", 32_768)
    writer = writer.option("parquet.bloom.filter.enabled#c_int", "true")
    writer = writer.option("parquet.writer.version", "v2").option("parquet.page.row.count.limit", 50)
    writer.parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("v2_files")
    _check_keys(assert_same_result, "v2_files")


def test_duckdb(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    duckdb = pytest.importorskip("duckdb")
    # Its row groups have at least 2,048 rows.
    table = tables.all_types(rows=16_384, seed=6, block=2_048)
    for i in range(4):
        part = table.slice(i * 4_096, 4_096)  # noqa: F841 - the statement finds it by its name
        duckdb.sql(
            f"COPY (SELECT * FROM part) TO '{tmp_path}/part-{i}.parquet' "
            "(FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION zstd)"
        )
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("duckdb_files")
    _check_keys(assert_same_result, "duckdb_files")


@pytest.mark.core
def test_rows_in_order_of_the_key(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    # The best rows are in the last file for one direction, in the first one for the other.
    path = tables.write(tables.all_types(), tmp_path / "ordered")
    spark.read.parquet(str(path)).createOrReplaceTempView("ordered")
    for order in ("ASC", "DESC"):
        query = f"SELECT * FROM ordered ORDER BY seq {order} LIMIT 10"
        assert_row_groups_pruned(assert_same_result(query, ordered=True))


def test_pages_are_skipped(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    # Two files of one row group each, both over the whole range of the key, read by one task: what the
    # first one teaches leaves only the last pages of the second one.
    table = tables.all_types()
    for i in range(2):
        half = table.take(list(range(i, tables.ROWS, 2)))
        options = {"write_page_index": True, "max_rows_per_page": 20, "write_batch_size": 20}
        pq.write_table(half, tmp_path / f"part-{i}.parquet", **options)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("pages")
    with joins.settings(spark, joins.ONE_SCAN_TASK):
        result = assert_same_result("SELECT * FROM pages ORDER BY seq DESC LIMIT 10", ordered=True)
    (scan,) = result.scans
    assert (scan["files_pruned"], scan["row_groups_pruned"]) == (0, 0), result.analysis
    assert scan["rows_pruned"] > tables.ROWS // 3, result.analysis


def test_int96_has_no_statistics_but_rows_are_skipped(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check
) -> None:
    # In no order: whichever task is ahead, it finds rows that it does not need.
    frame = spark.range(0, 20_000, 1, 4).selectExpr(
        "id",
        "timestamp_seconds(1700000000 + id * 7919 % 20000) AS at",
        "repeat(CAST(id AS STRING), 20) AS wide",
    )
    with joins.settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        frame.write.option("parquet.block.size", 65_536).parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("int96")
    assert_same_result("SELECT * FROM int96 ORDER BY at LIMIT 10", ordered=True)
    assert_same_result("SELECT * FROM int96 ORDER BY at DESC LIMIT 10", ordered=True)

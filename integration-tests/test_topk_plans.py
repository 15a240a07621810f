"""TopKs of many shapes: what is between the TopK and the scan, and how its keys are written."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import tables
from support.checks import ORDERS, Check
from support.joins import ONE_SCAN_TASK, ROW_BASED, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Queries over `t` whose rows are unique by their sort keys, and whose filter has to reach the scan.
SHAPES = {
    "two_keys": "SELECT * FROM t ORDER BY c_int DESC, id LIMIT 10",
    "many_ties_on_the_first_key": "SELECT * FROM t ORDER BY c_tinyint, id LIMIT 40",
    "three_keys": "SELECT * FROM t ORDER BY c_boolean, c_tinyint DESC NULLS FIRST, id DESC LIMIT 30",
    "alias_of_alias": (
        "SELECT c AS d, s FROM (SELECT b AS c, s FROM (SELECT id AS b, grp AS s FROM t)) ORDER BY d LIMIT 9"
    ),
    "key_not_selected": "SELECT c_string, c_date FROM t ORDER BY id DESC LIMIT 10",
    "computed_beside_key": "SELECT id, upper(c_string) AS u, grp + 1 AS n FROM t ORDER BY id LIMIT 10",
    "filter_on_key": "SELECT * FROM t WHERE id > 1000 AND id < 3000 ORDER BY id LIMIT 10",
    "filter_with_nulls": "SELECT * FROM t WHERE c_int IS NULL OR c_date IS NULL ORDER BY id LIMIT 3",
    "filter_in_subquery": (
        "SELECT * FROM t WHERE id > (SELECT avg(id) - 1000 FROM range(0, 4000)) ORDER BY id LIMIT 10"
    ),
}


@pytest.fixture(autouse=True)
def _view(t: str) -> None:
    """Queries name `t`."""


@pytest.mark.core
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(assert_same_result: Check, shape: str) -> None:
    assert_same_result(SHAPES[shape], ordered=True)


def test_partitions_with_null(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    frame = spark.range(0, 4_000, 1, 4).selectExpr(
        "id", "IF(id % 5 = 0, NULL, CAST(id % 5 AS STRING)) AS part"
    )
    frame.write.partitionBy("part").option("parquet.block.size", 4_096).parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("null_part")
    for order in ORDERS:
        assert_same_result(f"SELECT * FROM null_part ORDER BY part {order}, id LIMIT 10", ordered=True)


def test_column_missing_from_some_files(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check
) -> None:
    tables.write(tables.all_types(), tmp_path / "data" / "v=1")
    tables.write(tables.all_types(seed=2).drop_columns(["c_int"]), tmp_path / "data" / "v=2")
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "data"))
    frame.createOrReplaceTempView("evolved")
    for order in ORDERS:
        query = f"SELECT * FROM evolved ORDER BY c_int {order} LIMIT 10"
        assert_same_result(query, ordered=True, keys=["c_int"])


def test_missing_column_with_default(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check, spark_mode: str
) -> None:
    path = tmp_path / "data"
    spark.sql("DROP TABLE IF EXISTS defaulted")
    spark.sql(f"CREATE TABLE defaulted (id BIGINT, n INT) USING parquet LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO defaulted SELECT id, CAST(id AS INT) FROM range(1000)")
        spark.sql("ALTER TABLE defaulted ADD COLUMNS (extra INT DEFAULT 42)")
        spark.sql(
            "INSERT INTO defaulted SELECT id, CAST(id AS INT), CAST(id % 100 AS INT) FROM range(1000, 3000)"
        )
        # Each file has one page. A Connect server collects a TopK through an exchange, below which a scan
        # skips rows only if that spares pages.
        fires = None if spark_mode == "connect" else True
        for order in ("ASC", "DESC"):
            query = f"SELECT * FROM defaulted ORDER BY extra {order}, id LIMIT 30"
            assert_same_result(query, ordered=True, fires=fires)
    finally:
        spark.sql("DROP TABLE IF EXISTS defaulted")


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_int_read_as_bigint(
    spark: SparkSession, tmp_path: Path, assert_same_result: Check, order: str
) -> None:
    path = tables.write(tables.all_types().select(["seq", "c_int", "c_float"]), tmp_path / "data")
    frame = spark.read.schema("seq BIGINT, c_int BIGINT, c_float DOUBLE").parquet(str(path))
    frame.createOrReplaceTempView("widened")
    for key in ("c_int", "c_float"):
        query = f"SELECT * FROM widened ORDER BY {key} {order} NULLS LAST LIMIT 10"
        assert_same_result(query, ordered=True, keys=[key])


def test_column_names_ignore_case(spark: SparkSession, tmp_path: Path, assert_same_result: Check) -> None:
    path = tables.write(tables.all_types().rename_columns({"c_int": "C_Int"}), tmp_path / "data")
    spark.read.schema("ID BIGINT, c_INT INT, c_String STRING").parquet(str(path)).createOrReplaceTempView(
        "cases"
    )
    assert_same_result("SELECT * FROM cases ORDER BY c_int, id LIMIT 10", ordered=True)


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

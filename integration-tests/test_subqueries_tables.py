"""Values of scalar subqueries as filters of Delta and Iceberg tables, and commands that change these tables.

Run with `TABLE_FORMAT=delta` or `TABLE_FORMAT=iceberg`, on a Spark line that the format has a package for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import assert_same_result
from support import joins

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

delta = pytest.mark.table_format("delta")
iceberg = pytest.mark.table_format("iceberg")

FILES = 8
ROWS = 8_000
#: Conditions, and how many of the files have no such row.
CONDITIONS = {
    "id = (SELECT max(last) FROM days)": FILES - 1,
    "id > (SELECT max(last) FROM days)": 2,
    "id BETWEEN (SELECT min(last) FROM days) AND (SELECT max(last) FROM days)": FILES - 1,
    "id <= (SELECT max(none) FROM days)": FILES,
}


@pytest.fixture(autouse=True)
def days(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"last": [2_100, 2_200], "none": pa.array([None, None], pa.int64()), "k": [2_150, 7_900]}
    joins.view(spark, tmp_path, "days", pa.table(columns))


def _table(spark: SparkSession, name: str, properties: str, using: str) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING {using} TBLPROPERTIES ({properties})")
    values = f"SELECT /*+ REPARTITION_BY_RANGE({FILES}, id) */ id, id v FROM range({ROWS})"
    spark.sql(f"INSERT INTO {name} {values}")


def _assert_files(spark: SparkSession, table: str, condition: str) -> None:
    result = assert_same_result(spark, f"SELECT * FROM {table} WHERE {condition}", alone=False)
    assert [f["state"] for f in result.filters if f["producer"] == "subquery"] == ["ready"]
    scan = next(s for s in result.scans if s["table_name"].endswith(table.split(".")[-1]))
    assert scan["files_pruned"] == scan["files_unopened"] == CONDITIONS[condition], scan


def _left(spark: SparkSession, name: str, command: str) -> Any:
    """The rows that a command leaves in the table, or its error."""
    try:
        spark.sql(command)
    except Exception as error:
        return type(error).__name__, error.getCondition()
    return sorted(tuple(row) for row in spark.table(name).collect())


@delta
@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_files_of_a_delta_table(spark: SparkSession, condition: str, vectors: str) -> None:
    _table(spark, "told", f"'delta.enableDeletionVectors'='{vectors}'", "delta")
    if vectors == "true":
        spark.sql("DELETE FROM told WHERE id % 10 = 3")
    _assert_files(spark, "told", condition)


MERGE = (
    "MERGE INTO {name} t USING (SELECT * FROM days WHERE k >= (SELECT max(last) - 100 FROM days)) s "
    "ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = -1 "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, -2)"
)
COMMANDS = {
    "delete": "DELETE FROM {name} WHERE id >= (SELECT max(last) FROM days)",
    "delete the others": "DELETE FROM {name} WHERE NOT (id <=> (SELECT max(last) FROM days))",
    "update": "UPDATE {name} SET v = 0 WHERE id = (SELECT max(last) FROM days)",
    "merge": MERGE,
    "merge of some": MERGE.replace(" WHEN", " AND t.id < (SELECT max(last) FROM days) WHEN", 1),
    "insert": "INSERT INTO {name} SELECT id + 10000, v FROM {name} WHERE id > (SELECT max(last) FROM days)",
}


def _assert_left(spark: SparkSession, name: str, properties: str, using: str, command: str) -> None:
    left = []
    for enabled in (False, True):
        _table(spark, name, properties, using)
        with sdf.conf(spark).override(enabled=enabled):
            left.append(_left(spark, name, COMMANDS[command].format(name=name)))
    assert left[0] == left[1]


@delta
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_delta(spark: SparkSession, command: str) -> None:
    """Delta refuses subqueries in some of them."""
    _assert_left(spark, "changed", "'delta.enableDeletionVectors'='true'", "delta", command)


SPLITS = "'format-version'='2', 'read.split.open-file-cost'='4096'"


@iceberg
@pytest.mark.parametrize("condition", CONDITIONS)
def test_files_of_an_iceberg_table(spark: SparkSession, condition: str) -> None:
    _table(spark, "ice.db.told", SPLITS, "iceberg")
    _assert_files(spark, "ice.db.told", condition)


@iceberg
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_iceberg(spark: SparkSession, command: str, mode: str) -> None:
    modes = ", ".join(f"'write.{c}.mode'='{mode}'" for c in ("delete", "update", "merge"))
    _assert_left(spark, "ice.db.changed", f"{SPLITS}, {modes}", "iceberg", command)

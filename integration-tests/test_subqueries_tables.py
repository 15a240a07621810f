"""Values of scalar subqueries as filters of Delta and Iceberg tables, and commands that change these tables.

Run with `TABLE_FORMAT=delta` or `TABLE_FORMAT=iceberg`, on a Spark line that the format has a package for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import assert_same_result
from support import joins

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

FILES = 8
ROWS = 8_000
_MODES = ", ".join(f"'write.{command}.mode'='merge-on-read'" for command in ("delete", "update", "merge"))
#: Names of tables, and properties.
TABLES = {
    "delta": ("told", "'delta.enableDeletionVectors'='true'"),
    "iceberg": ("ice.db.told", f"'format-version'='2', 'read.split.open-file-cost'='4096', {_MODES}"),
}
formats = pytest.mark.parametrize(
    "using", [pytest.param(f, marks=pytest.mark.table_format(f)) for f in TABLES]
)

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


def _table(spark: SparkSession, using: str) -> str:
    name, properties = TABLES[using]
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING {using} TBLPROPERTIES ({properties})")
    values = f"SELECT /*+ REPARTITION_BY_RANGE({FILES}, id) */ id, id v FROM range({ROWS})"
    spark.sql(f"INSERT INTO {name} {values}")
    return name


def _left(spark: SparkSession, name: str, command: str) -> Any:
    """The rows that a command leaves in the table, or its error."""
    try:
        spark.sql(command)
    except Exception as error:
        return type(error).__name__, error.getCondition()
    return sorted(tuple(row) for row in spark.table(name).collect())


@formats
@pytest.mark.parametrize("condition", CONDITIONS)
def test_files(spark: SparkSession, condition: str, using: str) -> None:
    name = _table(spark, using)
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    result = assert_same_result(spark, f"SELECT * FROM {name} WHERE {condition}", alone=False)
    assert [f["state"] for f in result.filters if f["producer"] == "subquery"] == ["ready"]
    scan = next(s for s in result.scans if s["table_name"].endswith("told"))
    assert scan["files_pruned"] == scan["files_unopened"] == CONDITIONS[condition], scan


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


@formats
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(spark: SparkSession, command: str, using: str) -> None:
    """Delta refuses subqueries in some of them."""
    left = []
    for enabled in (False, True):
        name = _table(spark, using)
        with sdf.conf(spark).override(enabled=enabled):
            left.append(_left(spark, name, COMMANDS[command].format(name=name)))
    assert left[0] == left[1]

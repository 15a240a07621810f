"""Delta tables: files left out and ordered by the log's statistics, row groups and rows as in plain Parquet.

`StatisticsTextSuite` has what the log's texts mean: of zones, calendars and types that were widened.
Run with `TABLE_FORMAT=delta`, on a Spark line that Delta has a package for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import SameResult
from support import joins
from support.checks import Check

pytestmark = [pytest.mark.table_format("delta"), pytest.mark.core, pytest.mark.timeout(300)]

FILES = 8
ROWS = 8_000
COLUMNS = {
    "id": "id",
    "i": "CAST(id * 3 AS INT)",
    "n": "IF(id % 7 = 0, NULL, id)",
    "nulls": "IF(id < 4000, NULL, id)",
    "s": "CAST(id AS STRING)",
    # Delta's log has the first 32 characters only.
    "long": "CONCAT(REPEAT('same prefix ', 4), LPAD(id, 9, '0'))",
    "emoji": "CONCAT('\\U0001F600', LPAD(id, 9, '0'), REPEAT('\\U0001F600', 40))",
    "d": "CAST(id / 100 AS DECIMAL(10, 2))",
    "big": "CAST(id AS DECIMAL(30, 5))",
    "f": "CAST(id AS FLOAT) / 3",
    "x": "IF(id % 5000 = 1, DOUBLE('NaN'), id / 3)",
    "dt": "DATE_ADD(DATE'1969-01-01', CAST(id / 20 AS INT))",
    "ts": "TIMESTAMP_MICROS(id * 1000001 - 5000000000)",
    "ntz": "CAST(TIMESTAMP_MICROS(id * 1000001 - 5000000000) AS TIMESTAMP_NTZ)",
    "pad": "REPEAT('x', 20)",
}
#: Of those whose order is the files', the log's statistics tell every file from the others.
TOLD = ["id", "i", "n", "nulls", "d", "dt", "ts", "ntz"]


def _table(spark: SparkSession, name: str, **properties: str) -> str:
    values = ", ".join(f"{sql} AS {column}" for column, sql in COLUMNS.items())
    given = ", ".join(f"'delta.{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} USING delta TBLPROPERTIES ({given}) "
        f"AS SELECT {values} FROM range(0, {ROWS}, 1, {FILES})"
    )
    return name


@pytest.fixture(scope="module", autouse=True)
def _waits(spark: SparkSession) -> Iterator[None]:
    """Scans wait for the filters of joins."""
    with joins.settings(spark, joins.FOREVER):
        yield


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> str:
    """As Delta writes by default."""
    return _table(spark, "plain", enableDeletionVectors="false")


@pytest.fixture(scope="module")
def deleted(spark: SparkSession) -> str:
    """Every tenth row is deleted, and a file in the middle has none left that counts."""
    name = _table(spark, "deleted", enableDeletionVectors="true")
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3 OR id BETWEEN 5000 AND 5998")
    return name


@pytest.fixture(scope="module", params=["name", "id"])
def mapped(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """Columns that the files call otherwise; some renamed, dropped and added since."""
    name = _table(
        spark,
        f"mapped_{request.param}",
        **{"columnMapping.mode": request.param, "enableDeletionVectors": "true"},
    )
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN pad")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN i TO pad")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN d TO i")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN d INT")
    return name


def _forget(spark: SparkSession) -> None:
    """What earlier queries learned of files: each test shows what the log is good for."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.org.dynamicfilters.scan.statistics.FileStatistics.instance().clear()


def _check(spark: SparkSession, assert_same_result: Check, query: str, **how: Any) -> SameResult:
    _forget(spark)
    result = assert_same_result(query, **how)
    assert result.analysis is not None, query
    return result


def _scan(result: SameResult, table: str) -> dict[str, Any]:
    found = [s.asDict() for s in result.scans if s["table_name"].endswith(table)]
    assert found, result.plan
    return found[-1]


@pytest.mark.parametrize("column", COLUMNS)
def test_topk(spark: SparkSession, assert_same_result: Check, plain: str, deleted: str, column: str) -> None:
    best = "ASC NULLS LAST"
    for table, orders in ((plain, [best, "DESC"]), (deleted, [best, "DESC NULLS FIRST"])):
        for order in orders:
            query = f"SELECT * FROM {table} ORDER BY {column} {order}, id LIMIT 7"
            # All rows have the same pad.
            result = _check(spark, assert_same_result, query, ordered=True, fires=column != "pad")
            if column in TOLD and (order == best or column in ("id", "i", "d", "dt", "ts")):
                scan = _scan(result, table)
                assert scan["files_pruned"] >= FILES - 4, (query, scan)
                # Not one of the others was opened.
                assert scan["files_unopened"] >= FILES - 4, (query, scan)


@pytest.mark.parametrize("column", [c for c in COLUMNS if c != "pad"])
def test_join(spark: SparkSession, assert_same_result: Check, plain: str, deleted: str, column: str) -> None:
    for table in (plain, deleted):
        query = (
            f"SELECT t.id, t.s, b.id FROM {table} t JOIN "
            f"(SELECT id, {column} AS k FROM {plain} WHERE s IN ('4', '77', '7005')) b ON t.{column} = b.k"
        )
        for strategy in (joins.BROADCAST, joins.SHUFFLED):
            with joins.settings(spark, strategy):
                result = _check(spark, assert_same_result, query)
            if column in TOLD and column not in ("n", "nulls"):
                scan = _scan(result, table)
                assert scan["files_pruned"] >= FILES - 4, (query, scan)


def test_columns_by_other_names(spark: SparkSession, assert_same_result: Check, mapped: str) -> None:
    # Of two columns that have names of others, and one that was added.
    for column, files in (("pad", FILES - 4), ("i", FILES - 4), ("d", 0)):
        # The column that was added is NULL in all rows.
        query = f"SELECT * FROM {mapped} ORDER BY {column} DESC, id LIMIT 5"
        topk = _check(spark, assert_same_result, query, fires=files > 0)
        assert _scan(topk, mapped)["files_pruned"] >= files, (column, topk.scans)
        one = f"(SELECT {column} k FROM {mapped} WHERE s = '77')"
        query = f"SELECT t.* FROM {mapped} t JOIN {one} b ON t.{column} = b.k"
        # Adaptive execution may drop the scan before it runs, if no key is left.
        join = _check(spark, assert_same_result, query, fires=True if files else None)
        if files:
            assert _scan(join, mapped)["files_pruned"] >= files, (column, join.scans)


def test_min_and_max(spark: SparkSession, assert_same_result: Check, deleted: str) -> None:
    result = _check(spark, assert_same_result, f"SELECT min(id), max(id) FROM {deleted} WHERE s <> '5'")
    assert _scan(result, deleted)["files_pruned"] >= FILES // 2, result.scans


def test_what_metadata_answers_is_left_to_delta(
    spark: SparkSession, assert_same_result: Check, deleted: str
) -> None:
    for query in (f"SELECT count(*) FROM {deleted}", f"SELECT id % 3, count(*) FROM {deleted} GROUP BY 1"):
        result = _check(spark, assert_same_result, query, fires=False)
        assert not result.scans, result.plan


def test_deleted_rows_found_by_counting(spark: SparkSession, assert_same_result: Check, deleted: str) -> None:
    """Then a file is read as a whole or not at all."""
    with joins.settings(spark, {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}):
        result = _check(spark, assert_same_result, f"SELECT * FROM {deleted} ORDER BY id DESC LIMIT 5")
        scan = _scan(result, deleted)
        assert scan["files_pruned"] >= FILES - 4, scan
        assert scan["files_unopened"] == scan["files_pruned"], scan
        assert any("counting" in reason for reason in scan["reasons"]), scan


def test_rows_numbers_and_files_stay_right(
    spark: SparkSession, assert_same_result: Check, deleted: str
) -> None:
    query = f"SELECT id, _metadata.row_index, _metadata.file_name FROM {deleted} ORDER BY id DESC LIMIT 50"
    _check(spark, assert_same_result, query, ordered=True)
    query = f"SELECT id, input_file_name() FROM {deleted} ORDER BY id DESC LIMIT 50"
    _check(spark, assert_same_result, query, ordered=True)


def test_versions(spark: SparkSession, assert_same_result: Check) -> None:
    """Time travel, after OPTIMIZE and Z-order, and after files were written anew."""
    name = _table(spark, "versions", enableDeletionVectors="true")
    spark.sql(f"UPDATE {name} SET id = id + 100000 WHERE id < 5")
    spark.sql(f"OPTIMIZE {name} ZORDER BY (s)")
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name} VERSION AS OF 0 WHERE id BETWEEN 3 AND 4")
    for version in (0, 1, 3):
        query = f"SELECT * FROM {name} VERSION AS OF {version} ORDER BY id DESC, s LIMIT 8"
        result = _check(spark, assert_same_result, query, ordered=True)
        if version < 2:
            assert _scan(result, name)["files_pruned"] >= FILES - 4, (version, result.scans)
    _check(spark, assert_same_result, f"SELECT * FROM {name} ORDER BY s LIMIT 8", ordered=True)


def test_partitions_and_generated_columns(spark: SparkSession, assert_same_result: Check) -> None:
    spark.sql("DROP TABLE IF EXISTS parts")
    columns = "id BIGINT, dt DATE, y INT GENERATED ALWAYS AS (year(dt)), s STRING"
    spark.sql(f"CREATE TABLE parts ({columns}) USING delta PARTITIONED BY (y)")
    values = "id, DATE_ADD(DATE'2000-01-01', CAST(id AS INT)), 's' || id"
    spark.sql(f"INSERT INTO parts (id, dt, s) SELECT {values} FROM RANGE(4000)")
    query = "SELECT * FROM parts ORDER BY y DESC, id LIMIT 5"
    result = _check(spark, assert_same_result, query, ordered=True)
    assert _scan(result, "parts")["files_pruned"] > 0, result.scans
    query = "SELECT p.* FROM parts p JOIN (SELECT DISTINCT y AS k FROM parts WHERE s = 's3') b ON p.y = b.k"
    # Spark itself prunes partitions by the keys, where it expects that to pay.
    _check(spark, assert_same_result, query, fires=None)
    with joins.settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
        _check(spark, assert_same_result, query)
    query = "SELECT p.* FROM parts p JOIN (SELECT dt AS k FROM parts WHERE s = 's3') b ON p.dt = b.k"
    _check(spark, assert_same_result, query)


def test_user_filter(spark: SparkSession, deleted: str) -> None:
    with sdf.create_filter(spark, "wanted", "bigint") as wanted:
        wanted.update(sdf.isin([7, 7000]))
        query = spark.table(deleted).where(wanted.matches("id"))
        analysis = sdf.analyze(query)
        rows = query.collect()
    assert sorted(r.id for r in rows) == [7, 7000]
    assert analysis.scans[-1]["files_pruned"] == FILES - 2, str(analysis)
    assert analysis.scans[-1]["format"] == "delta"
    # Delta runs queries over its log meanwhile, and refuses to write rows to nowhere.
    assert analysis.fired()
    assert "Overwrite" not in analysis.plan, str(analysis)


def test_names_that_mean_other_columns_in_another_version(
    spark: SparkSession, assert_same_result: Check
) -> None:
    """Statistics learned of one column of the files are not used for another column, also after both were
    renamed. The names of a struct's fields in the files are in the metadata of these fields.
    """
    spark.sql("DROP TABLE IF EXISTS renamed")
    spark.sql(
        "CREATE TABLE renamed USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS SELECT "
        "id AS a, 3999 - id AS b, named_struct('a', id, 'b', 3999 - id) AS st FROM range(0, 4000, 1, 4)"
    )
    for of in ("", "st."):
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            spark.sql(f"ALTER TABLE renamed RENAME COLUMN {of}{old} TO {new}")
    # Younger files are not remembered.
    time.sleep(3)
    for version in (0, 6, 0):
        source = f"renamed VERSION AS OF {version}"
        for column in ("a", "b"):
            query = f"SELECT {column} FROM {source} ORDER BY {column} DESC LIMIT 3"
            result = assert_same_result(query, ordered=True)
            assert version or any(s["files_pruned"] for s in result.scans), result.analysis
            assert_same_result(
                f"SELECT a FROM {source} WHERE st.{column} = (SELECT 500 + max(id) FROM range(3))"
            )

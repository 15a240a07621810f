"""Iceberg tables: files left out and put in order by the bounds in manifests, rows dropped below exchanges.

Run with `TABLE_FORMAT=iceberg`, on a Spark line that Iceberg has a package for.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins
from support.joins import STRATEGIES, Comparer

pytestmark = [pytest.mark.table_format("iceberg"), pytest.mark.core]

FILES = 10
# Several tasks for little data, and several files a task.
SPLITS = "'read.split.open-file-cost'='4096', 'read.split.target-size'='40000'"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes ice.db.p and some_nulls, clustered on k; build b with keys of one file; p as Parquet."""
    folder = tmp_path_factory.mktemp("sources")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build([*joins.within_row_group(3), None]))
    _create(spark, "ice.db.p", "k BIGINT, id BIGINT, g INT, v INT, s STRING, payload STRING", "*")
    # Two files of NULLs, and none in the others.
    _create(spark, "ice.db.some_nulls", "k BIGINT, id BIGINT", "IF(id < 800, NULL, id DIV 2), id")
    return Comparer(spark)


def _create(spark: SparkSession, name: str, columns: str, values: str, more: str = "", by: str = "") -> None:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    options = f"TBLPROPERTIES ({SPLITS}{', ' if more else ''}{more})"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg {by} {options}")
    rows = spark.table("p").count() // FILES
    files = [
        f"SELECT /*+ COALESCE(1) */ {values} FROM p WHERE id >= {i * rows} AND id < {(i + 1) * rows}"
        for i in range(FILES)
    ]
    # Two manifests. By default a union of single partitions is a single partition.
    with joins.settings(spark, {"spark.sql.unionOutputPartitioning": "false"}):
        for half in (files[: FILES // 2], files[FILES // 2 :]):
            spark.sql(f"INSERT INTO {name} {' UNION ALL '.join(half)}")


def _scan(run: joins.Run, files: int = FILES) -> dict[str, int]:
    found = [s.asDict() for s in run.scans if s["files_total"] == files]
    assert found, str(run)
    return found[-1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_join_by_a_column_that_is_no_partition(compare: Comparer, strategy: str) -> None:
    query = "SELECT x.id, x.payload, b.n FROM ice.db.p x JOIN b ON x.k = b.j"
    run = compare(query, STRATEGIES[strategy], joins.FOREVER).on
    joins.assert_ready(run, "k")
    assert _scan(run)["files_pruned"] >= FILES - 2, str(run)
    assert _scan(run)["format"] == "iceberg"
    if strategy == "shuffled":
        assert _scan(run)["rows_pruned"] > 0, str(run)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_join_without_adaptive_execution(compare: Comparer, strategy: str) -> None:
    settings, fires = STRATEGIES[strategy] | joins.ADAPTIVE["off"], joins.in_time(strategy, "off")
    compare("SELECT x.id FROM ice.db.p x JOIN b ON x.k = b.j", settings, fires=fires)
    compare("SELECT x.id FROM ice.db.p x LEFT JOIN b ON x.k = b.j", settings, fires=False)
    compare("SELECT x.id FROM ice.db.p x LEFT ANTI JOIN b ON x.k = b.j", settings, fires=False)
    compare("SELECT x.id, b.n FROM ice.db.some_nulls x JOIN b ON x.k <=> b.j", settings, fires=fires)


def test_join_by_text_and_by_several_keys(compare: Comparer) -> None:
    for condition, settings in (("x.s = b.t", joins.BROADCAST), ("x.k = b.j AND x.g = b.h", joins.SHUFFLED)):
        run = compare(f"SELECT x.id FROM ice.db.p x JOIN b ON {condition}", settings, joins.FOREVER).on
        assert _scan(run)["files_pruned"] >= FILES - 2, str(run)


def test_best_files_come_first(compare: Comparer) -> None:
    for query in (
        "SELECT * FROM ice.db.p ORDER BY id DESC LIMIT 7",
        "SELECT id, k FROM ice.db.p WHERE v <> 3 ORDER BY id LIMIT 7",
        "SELECT * FROM ice.db.p ORDER BY k NULLS LAST, id LIMIT 7",
        "SELECT * FROM ice.db.p ORDER BY s DESC, id LIMIT 7",
        "SELECT min(id) AS a, max(k) AS b FROM ice.db.p WHERE v <> 3",
    ):
        run = compare(query).on
        assert _scan(run)["files_pruned"] >= FILES // 2, str(run)
    for order in ("k NULLS FIRST, id", "k DESC NULLS FIRST, id", "k, id"):
        compare(f"SELECT k, id FROM ice.db.some_nulls ORDER BY {order} LIMIT 60")


def test_types(spark: SparkSession, compare: Comparer) -> None:
    values = """id, CAST(id AS INT) AS i, DATE'2020-01-01' + CAST(id / 100 AS INT) AS d,
        TIMESTAMP_MICROS(id * 1000003 - 1000000000) AS t,
        CAST(TIMESTAMP_MICROS(id * 1000003) AS TIMESTAMP_NTZ) AS n,
        CASE WHEN id % 1000 = 7 THEN DOUBLE('NaN') WHEN id = 0 THEN -0.0 ELSE id - 1000.5 END AS x,
        CAST(id - 2000 AS FLOAT) AS f, CAST(id / 3 AS DECIMAL(12, 3)) AS m,
        CONCAT('ü', REPEAT('x', 30), FORMAT_STRING('%05d', id)) AS u, id % 2 = 0 AS b"""
    columns = """id BIGINT, i INT, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, x DOUBLE, f FLOAT, m DECIMAL(12, 3),
        u STRING, b BOOLEAN"""
    _create(spark, "ice.db.types", columns, values)
    for i, column in enumerate(("i", "d", "t", "n", "f", "m", "u", "b", "x", "x")):
        told = column not in ("m", "u", "b")  # bounds of texts are cut off before these differ
        order = ("", "DESC")[i % 2]
        query = f"SELECT id, {column} FROM ice.db.types ORDER BY {column} {order}, id LIMIT 5"
        # Only the lower bounds are known of files that may have NaN.
        compare(query, fires=None if (column, order) == ("x", "DESC") else told)
        (low, high), strategy = (((100, 120), "broadcast"), ((0, 3), "shuffled"))[i % 2]
        build = f"(SELECT {column} AS kk FROM ice.db.types WHERE id BETWEEN {low} AND {high})"
        # Rows are dropped below an exchange; both booleans are among the keys.
        fires = told or (strategy == "shuffled" and column != "b")
        query = f"SELECT x.id FROM ice.db.types x JOIN {build} y ON x.{column} = y.kk"
        compare(query, STRATEGIES[strategy], fires=fires)


def test_schema_evolution(spark: SparkSession, compare: Comparer) -> None:
    _create(spark, "ice.db.evolved", "id INT, k FLOAT, old STRING", "id, k, s")
    spark.sql("ALTER TABLE ice.db.evolved ALTER COLUMN id TYPE BIGINT")
    spark.sql("ALTER TABLE ice.db.evolved ALTER COLUMN k TYPE DOUBLE")
    spark.sql("ALTER TABLE ice.db.evolved RENAME COLUMN old TO s")
    spark.sql("ALTER TABLE ice.db.evolved ADD COLUMN old STRING")
    spark.sql("INSERT INTO ice.db.evolved SELECT id + 1000000, k, s, s FROM p WHERE id < 50")
    for order in ("id", "id DESC", "k DESC", "s NULLS LAST", "old"):
        # Nothing is known of a column in files that are older.
        query = f"SELECT id, k, s, old FROM ice.db.evolved ORDER BY {order}, id LIMIT 5"
        compare(query, fires=order != "old")
    query = "SELECT x.s FROM ice.db.evolved x JOIN b ON x.id = b.j"
    run = compare(query, joins.BROADCAST, joins.FOREVER).on
    assert _scan(run, FILES + 1)["files_pruned"] >= FILES - 2, str(run)
    for column in ("s", "old"):
        compare(f"SELECT x.id FROM ice.db.evolved x JOIN b ON x.{column} = b.t", joins.SHUFFLED)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_tables_after_commands_are_the_same(spark: SparkSession, compare: Comparer, mode: str) -> None:
    modes = ", ".join(f"'write.{c}.mode'='{mode}'" for c in ("delete", "update", "merge"))
    statements = [
        "MERGE INTO {t} t USING b ON t.k = b.j WHEN MATCHED THEN UPDATE SET v = b.n",
        "MERGE INTO {t} t USING (SELECT j, n FROM b WHERE n < 9) b ON t.k = b.j AND t.g = 3 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, id) VALUES (b.j, -b.n)",
        "MERGE INTO {t} t USING (SELECT j, n FROM b WHERE n BETWEEN 3 AND 5) b ON t.k = b.j "
        "WHEN MATCHED THEN UPDATE SET g = -1 WHEN NOT MATCHED BY SOURCE AND t.v = 2 THEN DELETE",
        "DELETE FROM {t} WHERE k IN (SELECT j FROM b WHERE n BETWEEN 10 AND 12)",
        "UPDATE {t} SET v = 99 WHERE k IN (SELECT j FROM b WHERE n > 15)",
        "DELETE FROM {t} WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.h = g)",
    ]
    tables = {enabled: f"ice.db.changed_{enabled}" for enabled in (True, False)}
    more = f"'format-version'='2', {modes}"
    for name in tables.values():
        _create(spark, name, "k BIGINT, id BIGINT, g INT, v INT", "k, id, g, v", more)
    for i, statement in enumerate(statements):
        settings = list(STRATEGIES.values())[(i + (mode == "merge-on-read")) % 2]
        for enabled, name in tables.items():
            with sdf.conf(spark).override(enabled=enabled), joins.settings(spark, settings):
                spark.sql(statement.format(t=name))
        left = [sorted(map(str, spark.table(name).collect())) for name in tables.values()]
        assert left[0] == left[1], statement
    # Deletes leave the bounds of files wider than their rows; a merge may leave most rows in one.
    compare(f"SELECT * FROM {tables[True]} ORDER BY id DESC, k LIMIT 9", fires=None)
    compare(f"SELECT x.id FROM {tables[True]} x JOIN b ON x.k = b.j", joins.SHUFFLED)


def test_partitioned_table(spark: SparkSession, compare: Comparer) -> None:
    _create(spark, "ice.db.parts", "k BIGINT, id BIGINT, g INT", "k, id, g", by="PARTITIONED BY (g)")
    files = spark.sql("SELECT count(*) FROM ice.db.parts.files").first()[0]
    part = "SELECT x.id FROM ice.db.parts x JOIN (SELECT h FROM b WHERE n = 3) y ON x.g = y.h"
    both = "SELECT x.id FROM ice.db.parts x JOIN b ON x.g = b.h AND x.k = b.j WHERE b.n < 4"
    # Spark's own partition pruning does the same.
    assert compare(part, joins.BROADCAST, fires=None).off.rows
    off = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
    for settings in STRATEGIES.values():
        run = compare(part, settings, off, joins.FOREVER).on
        # Iceberg leaves them out itself, as it is told to: one of the ten partitions is left.
        assert _scan(run, files)["files_pruned"] == files * 9 // 10, str(run)
        compare(both, settings, off, joins.FOREVER)
    run = compare("SELECT id FROM ice.db.parts ORDER BY id DESC LIMIT 3").on
    assert _scan(run, files)["files_pruned"] > 0, str(run)


def test_bounds_of_texts_that_are_no_utf_8(spark: SparkSession, compare: Comparer) -> None:
    """Manifests have other characters in place of such bytes, which are less or greater than these."""
    spark.sql("DROP TABLE IF EXISTS ice.db.bytes")
    spark.sql(f"CREATE TABLE ice.db.bytes (id BIGINT, t STRING) USING iceberg TBLPROPERTIES ({SPLITS})")
    for i, (odd, others) in enumerate((("X'80'", "é"), ("X'FF'", "é"), ("X'7AFF'", "é"), ("'z'", "a"))):
        text = f"IF(id = 9, CAST({odd} AS STRING), concat('{others}', id))"
        values = f"SELECT /*+ COALESCE(1) */ id + {i * 1000}, {text}"
        spark.sql(f"INSERT INTO ice.db.bytes {values} FROM range(300)")
    spark.sql("CACHE TABLE odd AS SELECT CAST(X'FF' AS STRING) k UNION ALL SELECT CAST(X'80' AS STRING)")
    # Files this small may all be read before there is a bound.
    compare("SELECT id FROM ice.db.bytes WHERE id < 2000 ORDER BY t LIMIT 1", fires=None)
    compare("SELECT id FROM ice.db.bytes ORDER BY t DESC LIMIT 1", fires=None)
    compare("SELECT hex(min(t)), hex(max(t)) FROM ice.db.bytes WHERE id < 2000", fires=None)
    run = compare("SELECT id FROM ice.db.bytes JOIN odd ON t = k", joins.BROADCAST, joins.FOREVER)
    assert sorted(r.id for r in run.on.rows) == [9, 1009]
    # Of the last file nothing is odd.
    assert _scan(run.on, 4)["files_pruned"] == 1, str(run.on)


def test_files_that_hold_another_value_of_what_they_are_partitioned_by(
    spark: SparkSession, compare: Comparer, tmp_path: Path
) -> None:
    for i in range(6):
        (tmp_path / f"p={i * 10}").mkdir()
        rows = pa.table({"id": range(i * 100, i * 100 + 100), "p": pa.array([0] * 100, pa.int32())})
        pq.write_table(rows, tmp_path / f"p={i * 10}" / "f.parquet")
    spark.sql("DROP TABLE IF EXISTS ice.db.added")
    partitioned = f"USING iceberg PARTITIONED BY (p) TBLPROPERTIES ({SPLITS})"
    spark.sql(f"CREATE TABLE ice.db.added (id BIGINT, p INT) {partitioned}")
    spark.sql(f"CALL ice.system.add_files(table => 'db.added', source_table => '`parquet`.`{tmp_path}`')")
    run = compare("SELECT id, p FROM ice.db.added ORDER BY p DESC, id LIMIT 3").on
    assert run.rows[0].p == 50
    assert _scan(run, 6)["files_pruned"] == 5, str(run)
    keys = "(SELECT h * 10 AS j FROM b WHERE n < 40 AND h BETWEEN 1 AND 2)"
    # Spark's own partition pruning does the same.
    compare(f"SELECT id FROM ice.db.added JOIN {keys} ON p = j", joins.FOREVER, fires=None)
    compare("SELECT min(p), max(p), count(*) FROM ice.db.added WHERE id >= 0", fires=False)


@pytest.mark.parametrize("kind", ["INT", "DECIMAL(5, 1)"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_table_of_several_file_formats(
    spark: SparkSession, compare: Comparer, strategy: str, kind: str
) -> None:
    """Iceberg reads it in rows, and what a filter leaves of it would be read in batches."""
    spark.sql("DROP TABLE IF EXISTS ice.db.mixed")
    spark.sql(f"CREATE TABLE ice.db.mixed (q {kind}, id BIGINT) USING iceberg PARTITIONED BY (q)")
    for q, file_format in enumerate(["orc", "parquet"]):
        spark.sql(f"ALTER TABLE ice.db.mixed SET TBLPROPERTIES ('write.format.default' = '{file_format}')")
        spark.sql(f"INSERT INTO ice.db.mixed SELECT CAST({q} AS {kind}), id FROM range(100)")
    for q in range(2):
        build = f"(SELECT CAST(max(n) - max(n) + {q} AS {kind}) AS j FROM b)"
        query = f"SELECT x.id FROM ice.db.mixed x JOIN {build} ON q = j"
        # What is skipped depends on both file formats, and on time where the table is not held back.
        run = compare(query, STRATEGIES[strategy], joins.FOREVER, fires=None).on
        joins.assert_ready(run, "q")
        if strategy != "broadcast":
            continue  # tables this small are not held back
        # Of a partition of another type nothing is known but to Iceberg, which is told the filter.
        if kind == "INT":
            assert _scan(run, files=2)["files_pruned"] == 1, str(run)
        else:
            assert [s["rows_total"] for s in run.scans_with("q")] == [100], str(run)


def test_users_filter(spark: SparkSession, compare: Comparer) -> None:
    with sdf.create_filter(spark, "mine", "bigint") as f:
        f.update(sdf.between(100, 110))
        run = joins.run(spark, "SELECT id FROM ice.db.p WHERE dynamic_filter('mine', k)")
        assert len(run.rows) == 21
        assert _scan(run)["files_pruned"] >= FILES - 2, str(run)
        (row,) = [x for x in run.report.filters if x["producer"] == "user"]
        assert row["state"] == "ready", row
        assert not row["reason"], row


def test_time_travel(spark: SparkSession, compare: Comparer) -> None:
    _create(spark, "ice.db.past", "k BIGINT, id BIGINT", "k, id")
    versions = spark.sql("SELECT snapshot_id FROM ice.db.past.snapshots ORDER BY committed_at").collect()
    for order in ("", "DESC"):
        compare(f"SELECT * FROM ice.db.past VERSION AS OF {versions[-2][0]} ORDER BY id {order} LIMIT 5")
        compare(f"SELECT * FROM ice.db.past ORDER BY id {order} LIMIT 5")


def test_files_that_are_added_later(spark: SparkSession, compare: Comparer) -> None:
    """Fails if a scan has the bounds of an earlier snapshot: then one file is missing in the total."""
    _create(spark, "ice.db.grows", "k BIGINT, id BIGINT", "k, id")
    query = "SELECT * FROM ice.db.grows ORDER BY id LIMIT 5"
    compare(query)
    spark.sql("INSERT INTO ice.db.grows SELECT /*+ COALESCE(1) */ k, id + 1000000 FROM p WHERE id < 50")
    assert _scan(compare(query).on, FILES + 1)["files_pruned"] >= FILES // 2 + 1


def test_metadata_tables_and_hints(spark: SparkSession, compare: Comparer) -> None:
    compare("SELECT file_path FROM ice.db.p.files ORDER BY file_path LIMIT 3", fires=False)
    query = "SELECT /*+ NO_DYNAMIC_FILTER(x) */ x.id FROM ice.db.p x JOIN b ON x.k = b.j"
    joins.assert_not_pruned(compare(query, joins.SHUFFLED, fires=False).on, "k")


def test_random_numbers_see_the_same_partitions(spark: SparkSession, compare: Comparer) -> None:
    # In stock Spark two halves of a random split have no row in common, but only where a table has one
    # manifest: Iceberg reads several side by side, and lists files as they come.
    name = "ice.db.halves"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (k BIGINT, id BIGINT) USING iceberg TBLPROPERTIES ({SPLITS})")
    spark.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION_BY_RANGE({FILES}, id) */ k, id FROM p")
    query = f"SELECT x.id FROM {name} x JOIN b ON x.k = b.j"
    assert _scan(compare(query, joins.BROADCAST, joins.FOREVER).on)["files_pruned"] > 0
    with joins.settings(spark, joins.BROADCAST):
        halves = [{r.id for r in half.collect()} for half in spark.sql(query).randomSplit([0.5, 0.5], seed=7)]
    assert not halves[0] & halves[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plan_that_is_executed_twice(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    with joins.settings(spark, STRATEGIES[strategy], joins.FOREVER):
        frame = spark.sql("SELECT x.id, b.n FROM ice.db.p x JOIN b ON x.k = b.j")
        first = sorted(frame.collect())
        assert sorted(frame.collect()) == first
        assert frame.count() == len(first)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_of_both_zeros_and_nan(
    spark: SparkSession, compare: Comparer, tmp_path: Path, strategy: str
) -> None:
    """Iceberg compares as Java does: -0.0 is less than 0.0. It refuses to compare with NaN."""
    name = "ice.db.zeros"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, x DOUBLE, f FLOAT) USING iceberg PARTITIONED BY (x, f)")
    values = "array(-0.0D, 0.0D, DOUBLE('NaN'), 1.0D, -1.0D)"
    spark.sql(f"INSERT INTO {name} SELECT id, {values}[id % 5], {values}[id % 5] FROM range(100)")
    keys = {"y": [0.0, float("nan")], "z": pa.array([-0.0, 1.0], pa.float32()), "w": [1, 2]}
    joins.view(spark, tmp_path, "keys", pa.table(keys))
    for column, key, w in (("x", "y", 1), ("f", "z", 1), ("x", "y", 2)):
        query = f"SELECT id FROM {name} JOIN (SELECT * FROM keys WHERE w = {w}) ON {column} = {key}"
        # Spark's own partition pruning may come first, and tables this small are not held back.
        joins.assert_ready(compare(query, STRATEGIES[strategy], joins.FOREVER, fires=None).on, column)
    with sdf.create_filter(spark, "zero", "double") as zero:
        for form in (sdf.isin([0.0]), sdf.between(-5.0, -0.0), sdf.isin([float("nan"), 0.0])):
            zero.update(form)
            compare(f"SELECT id FROM {name} WHERE dynamic_filter('zero', x)", fires=None)


def test_one_scan_in_two_places_of_a_plan(spark: SparkSession, compare: Comparer) -> None:
    """Spark plans a subquery's scan once, and pushes its condition into the branches of a union."""
    spark.sql("DROP TABLE IF EXISTS ice.db.twice")
    spark.sql("CREATE TABLE ice.db.twice (k BIGINT, pad STRING) USING iceberg PARTITIONED BY (k)")
    spark.sql(
        "INSERT INTO ice.db.twice SELECT id % 20, repeat(sha2(CAST(id AS STRING), 256), 3) FROM range(20000)"
    )
    for name in ("left_keys", "right_keys"):
        spark.sql(f"CACHE TABLE {name} AS SELECT id % 20 AS k, id % 10 AS c FROM range(1000)")
    union = "SELECT k FROM left_keys WHERE c = 1 UNION ALL SELECT k FROM right_keys WHERE c = 2"
    for condition in (
        "k IN (SELECT /*+ DYNAMIC_FILTER */ k FROM ice.db.twice)",
        "EXISTS (SELECT /*+ DYNAMIC_FILTER */ 1 FROM ice.db.twice p WHERE p.k = u.k)",
        "NOT EXISTS (SELECT /*+ DYNAMIC_FILTER */ 1 FROM ice.db.twice p WHERE p.k = u.k AND p.k < 12)",
    ):
        query = f"SELECT k, count(*) AS n FROM ({union}) u WHERE {condition} GROUP BY k"
        for strategy in STRATEGIES.values():
            # The table has all keys: only the other side may lose rows.
            run = compare(query, strategy, joins.FOREVER, fires=None)
            assert run.on.filters, str(run.on)


def test_bounds_of_imported_files(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    """They are taken from footers: in milliseconds, and without row groups that have none for a NaN."""
    for i in range(6):
        start = dt.datetime(2020, 1, 1) + dt.timedelta(days=100 * i)
        nan = float("nan")
        rows = {
            "t": pa.array([start + dt.timedelta(hours=h) for h in range(40)], pa.timestamp("ms")),
            "x": [float(i), nan] * 10 + [100.0 * (i + 1)] * 20,
            "s": ["a" * (i + 1)] * 20 + [chr(ord("f") + i) * 5_000] * 20,
            "id": range(40 * i, 40 * i + 40),
        }
        pq.write_table(pa.table(rows), tmp_path / f"{i}.parquet", row_group_size=20)
    spark.sql("DROP TABLE IF EXISTS ice.db.imported")
    columns = "t TIMESTAMP_NTZ, x DOUBLE, s STRING, id BIGINT"
    spark.sql(f"CREATE TABLE ice.db.imported ({columns}) USING iceberg TBLPROPERTIES ({SPLITS})")
    spark.sql(f"CALL ice.system.add_files(table => 'db.imported', source_table => '`parquet`.`{tmp_path}`')")
    table = "ice.db.imported"
    for column in ("t", "x", "s"):
        for order in ("", "DESC"):
            compare(f"SELECT id, {column} FROM {table} ORDER BY {column} {order}, id LIMIT 30", fires=False)
        compare(f"SELECT min({column}), max({column}) FROM {table} WHERE id >= 0", fires=False)
        # Of two files, and NaN among the numbers.
        keys = f"(SELECT {column} AS j FROM {table} WHERE id IN (7, 8, 48))"
        query = f"SELECT x.id FROM {table} x JOIN {keys} ON x.{column} = j"
        assert compare(query, joins.FOREVER, fires=False).on.rows

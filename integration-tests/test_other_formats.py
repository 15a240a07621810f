"""Tables that are not Parquet, and files through DataSource V2: what a join, a TopK and a user's filter do to
their scans: rows dropped below exchanges, files left out by partitions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins, packages, tables
from support.joins import STRATEGIES, Comparer
from support.map_outputs import NO_FULL_RETRY, SLOW, check

# With TABLE_FORMAT=avro the module runs with one format more.
AVRO = packages.chosen() is packages.AVRO
pytestmark = [pytest.mark.table_format("avro")] if AVRO else []
FORMATS = ("orc", "csv", "json", "avro") if AVRO else ("orc", "csv", "json")
#: Through DataSource V2.
V2 = ("parquet_v2", "orc_v2", "csv_v2")
THROUGH_V2 = {"spark.sql.sources.useV1SourceList": ""}
SCHEMA = "k BIGINT, id BIGINT, g INT, v INT, s STRING, payload STRING"
PARTS = "k BIGINT, id BIGINT, v INT, s STRING, payload STRING, g INT"
ROWS = {"orc rows": {"spark.sql.orc.enableVectorizedReader": "false"}}


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p with key k, as <name>_p in each format and, by partitions of g, as <name>_parts; build
    b with keys of one row group."""
    folder = tmp_path_factory.mktemp("formats")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build([*joins.within_row_group(3), None]))
    for name in ("parquet", *FORMATS, *V2):
        kind, path = name.removesuffix("_v2"), str(folder / name)
        spark.table("p").write.format(kind).save(path)
        spark.table("p").repartition(2).write.partitionBy("g").format(kind).save(f"{path}_parts")
        with joins.settings(spark, THROUGH_V2 if name in V2 else {}):
            for view, schema, of in ((f"{name}_p", SCHEMA, path), (f"{name}_parts", PARTS, f"{path}_parts")):
                spark.read.format(kind).schema(schema).load(of).createOrReplaceTempView(view)
    return Comparer(spark)


def _dropped(run: joins.Run, column: str = "k") -> int:
    return sum(s["rows_pruned"] for s in run.scans_with(column))


@pytest.mark.parametrize("adaptive", ["on", "off"])
@pytest.mark.parametrize("name", [*FORMATS, *V2])
def test_rows_are_dropped_below_an_exchange(compare: Comparer, name: str, adaptive: str) -> None:
    queries = {
        "inner": f"SELECT x.id, x.payload, b.n FROM {name}_p x JOIN b ON x.k = b.j",
        "null-safe": f"SELECT x.id, b.n FROM {name}_p x JOIN b ON x.k <=> b.j",
        "string": f"SELECT x.id FROM {name}_p x JOIN b ON x.s = b.t",
        "two keys": f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j AND x.g = b.h",
    }
    for query in queries.values():
        fires = joins.in_time("shuffled", adaptive)
        run = compare(query, joins.SHUFFLED, joins.FOREVER, joins.ADAPTIVE[adaptive], fires=fires).on
        assert "<=>" not in query or any(r.n == 20 for r in run.rows)
        if adaptive == "on":
            column = "s" if "x.s" in query else "k"
            assert {scan["format"] for scan in run.scans_with(column)} == {name.removesuffix("_v2")}
            assert ("BatchScan" in run.plan) == (name in V2), run.plan
            joins.assert_ready(run, column)
            assert _dropped(run, column) > 0, str(run)
            scans = run.scans_with(column)
            assert all(s["rows_total"] == s["rows_output"] + s["rows_pruned"] for s in scans), str(run)


def test_below_the_exchange_of_a_broadcast(compare: Comparer) -> None:
    # The orc table is the build side of one join, and filtered by the keys of another one.
    query = """SELECT /*+ BROADCAST(y) */ p.id FROM p JOIN
        (SELECT x.k AS kk, x.id AS other FROM orc_p x JOIN b ON x.k = b.j) y ON p.id = y.other"""
    for settings in STRATEGIES.values():
        run = compare(query, settings, joins.FOREVER).on
        joins.assert_pruned(run, "id")
    assert _dropped(run) > 0, str(run)


@pytest.mark.parametrize("name", ["csv", "json", *V2])
def test_in_the_same_stage_nothing_is_filtered(compare: Comparer, name: str) -> None:
    query = f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j"
    run = compare(query, joins.BROADCAST, fires=False).on
    joins.assert_not_pruned(run, "k")
    joins.assert_reason(run, "DataSource V2" if name in V2 else "format", "same stage")


def _read(run: joins.Run) -> int:
    return sum(s["rows_total"] for s in run.scans_with("k"))


@pytest.mark.parametrize("adaptive", ["on", "off"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_orc_leaves_out_row_groups_by_its_own_statistics(
    compare: Comparer, strategy: str, adaptive: str
) -> None:
    settings = (STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER)
    # Reports count rows that are dropped below an exchange, and none that ORC itself leaves out.
    fires = joins.in_time(strategy, adaptive) if strategy == "shuffled" else False
    for rows in ({}, ROWS["orc rows"]):
        run = compare("SELECT x.id FROM orc_p x JOIN b ON x.k = b.j", *settings, rows, fires=fires).on
        if strategy == "broadcast" or adaptive == "on":
            assert 0 < _read(run) < tables.ROWS, str(run)
    # Its bounds of strings are not to be trusted where bytes are no UTF-8.
    run = compare("SELECT x.id FROM orc_p x JOIN b ON x.s = b.t", *settings, fires=fires).on
    if strategy == "broadcast":
        joins.assert_not_pruned(run, "s")
    off = {"spark.sql.orc.filterPushdown": "false"}
    compare("SELECT x.id FROM orc_p x JOIN b ON x.k = b.j", *settings, off, fires=fires)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_orc_files_of_other_types(
    spark: SparkSession, compare: Comparer, tmp_path: Path, strategy: str
) -> None:
    settings = STRATEGIES[strategy]
    # Stock Spark reads these columns as null, or converts them.
    for i, kind in enumerate(("INT", "STRING", "DECIMAL(10, 2)", "DOUBLE")):
        path = str(tmp_path / str(i))
        spark.sql(f"SELECT CAST(k AS {kind}) AS k, id, payload FROM p").write.orc(path)
        spark.read.schema("k BIGINT, id BIGINT, payload STRING").orc(path).createOrReplaceTempView("other")
        # No report counts what ORC itself leaves out.
        fires = strategy == "shuffled"
        compare("SELECT x.id FROM other x JOIN b ON x.k = b.j", settings, joins.FOREVER, fires=fires)
    path = str(tmp_path / "renamed")
    spark.sql("SELECT k AS _c0, id, payload FROM p").write.orc(path)
    spark.read.schema("k BIGINT, id BIGINT, payload STRING").orc(path).createOrReplaceTempView("renamed")
    # All keys are read as NULL, which has a match.
    query = "SELECT x.id FROM renamed x JOIN b ON x.k <=> b.j"
    compare(query, settings, joins.FOREVER, fires=False)


def test_orc_char_columns(spark: SparkSession, compare: Comparer) -> None:
    spark.sql("DROP TABLE IF EXISTS padded")
    spark.sql("CREATE TABLE padded (c CHAR(10), w VARCHAR(10), id BIGINT) USING orc")
    try:
        spark.sql("INSERT INTO padded SELECT s, s, id FROM p")
        for column in ("x.c", "x.w", "TRIM(x.c)"):
            # A CHAR column is padded when it is read: its key is computed.
            query = f"SELECT x.id FROM padded x JOIN b ON {column} = b.t"
            compare(query, joins.SHUFFLED, joins.FOREVER, fires=column == "x.w")
    finally:
        spark.sql("DROP TABLE padded")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_files_are_left_out_by_partition_columns(compare: Comparer, name: str, strategy: str) -> None:
    off = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
    for query in (
        f"SELECT x.id FROM {name}_parts x JOIN (SELECT h FROM b WHERE n IN (3, 4)) y ON x.g = y.h",
        f"SELECT x.id FROM {name}_parts x JOIN b ON x.g = b.h AND x.k = b.j WHERE b.n IN (3, 4)",
    ):
        run = compare(query, STRATEGIES[strategy], off, joins.FOREVER).on
        (scan,) = run.scans_with("g")
        assert scan["files_total"] > 0, str(run)
        assert scan["files_pruned"] >= scan["files_total"] // 2, str(run)
        # No scan waits for a shuffled join's filter, and Spark's own partition pruning may come first.
        compare(query, STRATEGIES[strategy], joins.ADAPTIVE["off"], fires=None)
    compare(f"SELECT g, id FROM {name}_parts ORDER BY g DESC, id LIMIT 5")
    compare(f"SELECT min(g) AS a, max(g) AS b FROM {name}_parts WHERE id % 7 = 3")
    # Adaptive execution may drop the scan before it runs.
    empty = f"SELECT x.id FROM {name}_parts x JOIN (SELECT h FROM b WHERE n > 100) y ON x.g = y.h"
    assert not compare(empty, STRATEGIES[strategy], joins.FOREVER, fires=None).off.rows


@pytest.mark.parametrize(("name", "words"), [("csv", "format csv"), ("parquet_v2", "DataSource V2")])
def test_a_topk_says_why(compare: Comparer, name: str, words: str) -> None:
    run = compare(f"SELECT g, id FROM {name}_parts ORDER BY id DESC LIMIT 5", fires=False).on
    reasons = [f["reason"] for f in run.report.filters]
    assert any(words in r and "TopK" in r for r in reasons), reasons


def test_users_filter_has_a_row(spark: SparkSession, compare: Comparer) -> None:
    with sdf.create_filter(spark, "mine", "bigint") as f:
        f.update(sdf.between(100, 110))
        for name in (*FORMATS, "orc_v2"):
            run = joins.run(spark, f"SELECT id FROM {name}_p WHERE dynamic_filter('mine', k)")
            assert len(run.rows) == 21
            (row,) = [x for x in run.report.filters if x["producer"] == "user"]
            if name == "orc":
                assert not row["reason"], row
                assert run.scans[0]["rows_total"] < tables.ROWS, str(run)
            else:
                assert "the condition above it" in row["reason"], row


def test_users_filter_of_partitions(spark: SparkSession, compare: Comparer) -> None:
    """Spark lists the files by it; none of those that it lists is left out."""
    with sdf.create_filter(spark, "mine", "int") as f:
        f.update(sdf.between(3, 4))
        run = joins.run(spark, "SELECT id, g FROM parquet_v2_parts WHERE dynamic_filter('mine', g)")
        assert len(run.rows) == 800
        (row,) = [x for x in run.report.filters if x["producer"] == "user"]
        assert row["state"] == "ready", row


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plan_that_is_executed_twice(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    with joins.settings(spark, STRATEGIES[strategy], joins.FOREVER):
        frame = spark.sql("SELECT x.id, b.n FROM orc_v2_parts x JOIN b ON x.g = b.h AND x.k = b.j")
        first = sorted(frame.collect())
        assert first
        assert sorted(frame.collect()) == first
        assert frame.count() == len(first)


def test_text_csv_and_json(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    """A join of each of these formats: of the tests above `make test` runs some formats only."""
    spark.table("p").selectExpr("s AS value").write.text(str(tmp_path / "lines"))
    spark.read.text(str(tmp_path / "lines")).createOrReplaceTempView("lines")
    joined = {"lines": "value = b.t", "csv_p": "k = b.j", "json_p": "k = b.j", "csv_v2_p": "k = b.j"}
    for table, condition in joined.items():
        query = f"SELECT b.n FROM {table} x JOIN b ON x.{condition}"
        run = compare(query, joins.SHUFFLED, joins.FOREVER).on
        assert _dropped(run, condition.split()[0]) > 0, str(run)


def test_jdbc(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path / 'database'};create=true"
    options = {"url": url, "driver": "org.apache.derby.jdbc.EmbeddedDriver", "dbtable": "p"}
    small = spark.sql("SELECT k, id, g FROM p WHERE id % 4 = 0")
    small.coalesce(1).write.format("jdbc").options(**options).save()
    query = "SELECT x.id FROM jdbc_p x JOIN b ON x.k = b.j"
    in_parts = {"partitionColumn": "id", "lowerBound": "0", "upperBound": "4000", "numPartitions": "3"}
    for more in ({}, in_parts):
        table = spark.read.format("jdbc").options(**options, **more).load()
        table.createOrReplaceTempView("jdbc_p")
        run = compare(query, joins.SHUFFLED, joins.FOREVER).on
        assert _dropped(run) > 0, str(run)
        assert [scan["format"] for scan in run.scans_with("k")] == ["jdbc"]
    joins.assert_reason(compare(query, joins.BROADCAST, fires=False).on, "JDBC", "same stage")


_STORED = """
spark.conf.set("spark.sql.sources.useV1SourceList", {v1!r})
big.write.format({name!r}).save(str(folder / "stored"))
reader = spark.read.format({name!r}).schema("id BIGINT, k INT, v BIGINT, s STRING")
reader.load(str(folder / "stored")).createOrReplaceTempView("big")
compare({query!r}, reducers=8)
"""
_KEYS = {
    "in time": "SELECT j FROM dim WHERE g = 7",
    "late": "SELECT slow(j) AS j FROM dim WHERE j BETWEEN 1 AND 40",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "filters", "source"),
    [
        pytest.param("csv", "late", "v1", marks=pytest.mark.exhaustive),
        pytest.param("orc", "in time", "v1", marks=pytest.mark.large),
        pytest.param("orc", "in time", "v2", marks=pytest.mark.exhaustive),
        pytest.param("csv", "in time", "v1", marks=pytest.mark.large),
        pytest.param("orc", "late", "v1", marks=pytest.mark.large),
        pytest.param("orc", "late", "v2", marks=pytest.mark.large),
    ],
)
def test_lost_map_outputs(tmp_path: Path, name: str, filters: str, source: str) -> None:
    """Rows of a round-robin exchange go by their position: if others come, some are lost or doubled."""
    query = f"""SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {SLOW.format(id="b.id", each=31)}
        FROM (SELECT /*+ REPARTITION(8) */ * FROM big) b JOIN ({_KEYS[filters]}) d ON b.k = d.j"""
    code = _STORED.format(v1=name if source == "v1" else "", name=name, query=query)
    no_wait = {"spark.dynamicFilters.join.waitTimeout": "0s"} if filters == "late" else {}
    check(code, tmp_path, NO_FULL_RETRY | no_wait, pruned=filters == "in time")

"""Tables that are not Parquet: what a join, a TopK and a user's filter do to their scans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from support import joins
from support.applications import run_application, value
from support.joins import STRATEGIES, Comparer
from support.map_outputs import CODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("orc", "csv", "json")
SCHEMA = "k BIGINT, id BIGINT, g INT, v INT, s STRING, payload STRING"
ROWS = {"orc rows": {"spark.sql.orc.enableVectorizedReader": "false"}}


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p with key k, as <format>_p in each format; build b with keys of one row group."""
    folder = tmp_path_factory.mktemp("formats")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build([*joins.within_row_group(3), None]))
    for name in FORMATS:
        spark.table("p").write.format(name).save(str(folder / name))
        frame = spark.read.format(name).schema(SCHEMA).load(str(folder / name))
        frame.createOrReplaceTempView(f"{name}_p")
    return Comparer(spark)


def _dropped(run: joins.Run, column: str = "k") -> int:
    return sum(s["rows_pruned"] for s in run.scans_with(column))


@pytest.mark.parametrize("adaptive", ["on", "off"])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_dropped_below_an_exchange(compare: Comparer, name: str, adaptive: str) -> None:
    queries = {
        "inner": f"SELECT x.id, x.payload, b.n FROM {name}_p x JOIN b ON x.k = b.j",
        "semi": f"SELECT x.id FROM {name}_p x WHERE x.k IN (SELECT j FROM b)",
        "string": f"SELECT x.id FROM {name}_p x JOIN b ON x.s = b.t",
    }
    for query in queries.values():
        run = compare(query, joins.SHUFFLED, joins.FOREVER, joins.ADAPTIVE[adaptive]).on
        if adaptive == "on":
            column = "s" if "x.s" in query else "k"
            joins.assert_ready(run, column)
            assert _dropped(run, column) > 0, str(run)
            scans = run.scans_with(column)
            assert all(s["rows_total"] == s["rows_output"] + s["rows_pruned"] for s in scans), str(run)


def test_rows_of_orc_without_batches(compare: Comparer) -> None:
    query = "SELECT x.id, b.n FROM orc_p x JOIN b ON x.k = b.j"
    run = compare(query, joins.SHUFFLED, joins.FOREVER, ROWS["orc rows"]).on
    assert _dropped(run) > 0, str(run)


@pytest.mark.parametrize("name", FORMATS)
def test_nulls_that_match_stay(compare: Comparer, name: str) -> None:
    query = f"SELECT x.id, b.n FROM {name}_p x JOIN b ON x.k <=> b.j"
    result = compare(query, joins.SHUFFLED, joins.FOREVER)
    assert any(r.n == 20 for r in result.off.rows)
    compare(f"SELECT x.id, b.n FROM {name}_p x LEFT JOIN b ON x.k = b.j", joins.SHUFFLED)


@pytest.mark.parametrize("name", FORMATS)
def test_several_keys(compare: Comparer, name: str) -> None:
    query = f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j AND x.g = b.h"
    assert _dropped(compare(query, joins.SHUFFLED, joins.FOREVER).on) > 0


def test_below_the_exchange_of_a_broadcast(compare: Comparer) -> None:
    # The orc table is the build side of one join, and filtered by the keys of another one.
    query = """SELECT p.id FROM p JOIN
        (SELECT x.k AS kk, x.id AS other FROM orc_p x JOIN b ON x.k = b.j) y ON p.id = y.other"""
    for settings in STRATEGIES.values():
        compare(query, settings, joins.FOREVER)


@pytest.mark.parametrize("name", FORMATS)
def test_in_the_same_stage_nothing_is_filtered(compare: Comparer, name: str) -> None:
    query = f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j"
    run = compare(query, joins.BROADCAST).on
    joins.assert_not_pruned(run, "k")
    joins.assert_reason(run, "format", "same stage")


def test_a_topk_says_why(spark: SparkSession, compare: Comparer) -> None:
    run = joins.run(spark, "SELECT * FROM csv_p ORDER BY id LIMIT 5")
    reasons = [f["reason"] for f in run.report.filters]
    assert any("format CSV" in r and "topk" in r for r in reasons), reasons


def test_users_filter_has_a_row(spark: SparkSession, compare: Comparer) -> None:
    with sdf.create_filter(spark, "mine", "bigint") as f:
        f.update(sdf.between(100, 110))
        for name in FORMATS:
            run = joins.run(spark, f"SELECT id FROM {name}_p WHERE dynamic_filter('mine', k)")
            assert len(run.rows) == 21
            (row,) = [x for x in run.report.filters if x["producer"] == "user"]
            assert "the condition above it" in row["reason"], row


def test_useless_filter_is_given_up(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    joins.view(spark, tmp_path, "all_keys", joins.build(range(joins.KEYS)))
    for name in FORMATS:
        query = f"SELECT x.id FROM {name}_p x JOIN (SELECT j FROM all_keys WHERE n >= 0) y ON x.k = y.j"
        run = compare(query, joins.SHUFFLED, joins.FOREVER).on
        (scan,) = run.scans_with("k")
        assert scan["rows_output"] >= scan["rows_total"] * 0.9, str(run)


def test_hint(compare: Comparer) -> None:
    query = "SELECT /*+ NO_DYNAMIC_FILTER(x) */ x.id FROM orc_p x JOIN b ON x.k = b.j"
    joins.assert_not_pruned(compare(query, joins.SHUFFLED).on, "k")


def test_text(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    spark.table("p").selectExpr("s AS value").write.text(str(tmp_path / "lines"))
    spark.read.text(str(tmp_path / "lines")).createOrReplaceTempView("lines")
    run = compare("SELECT b.n FROM lines x JOIN b ON x.value = b.t", joins.SHUFFLED, joins.FOREVER).on
    assert _dropped(run, "value") > 0, str(run)


@pytest.fixture
def jdbc(spark: SparkSession, compare: Comparer, tmp_path: Path) -> Callable[..., None]:
    """Makes jdbc_p, the probe table in a database in this process."""
    url = f"jdbc:derby:{tmp_path / 'database'};create=true"
    options = {"url": url, "driver": "org.apache.derby.jdbc.EmbeddedDriver", "dbtable": "p"}
    small = spark.sql("SELECT k, id, g FROM p WHERE id % 4 = 0")
    small.coalesce(1).write.format("jdbc").options(**options).save()

    def make(**more: str) -> None:
        frame = spark.read.format("jdbc").options(**options, **more).load()
        frame.createOrReplaceTempView("jdbc_p")

    return make


def test_jdbc(spark: SparkSession, compare: Comparer, jdbc: Callable[..., None]) -> None:
    jdbc()
    query = "SELECT x.id FROM jdbc_p x JOIN b ON x.k = b.j"
    run = compare(query, joins.SHUFFLED, joins.FOREVER).on
    assert _dropped(run) > 0, str(run)
    jdbc(partitionColumn="id", lowerBound="0", upperBound="4000", numPartitions="3")
    assert _dropped(compare(query, joins.SHUFFLED, joins.FOREVER).on) > 0
    joins.assert_reason(compare(query, joins.BROADCAST).on, "JDBC", "same stage")


_LOST = """
for name in ("orc", "csv"):
    big.write.format(name).save(str(folder / name))
    frame = spark.read.format(name).schema("id BIGINT, k INT, v BIGINT, s STRING").load(str(folder / name))
    frame.createOrReplaceTempView("big_" + name)
late = "SELECT slow(j) AS j FROM dim WHERE j BETWEEN 1 AND 40"
slow = "CASE WHEN b.id % 31 = 0 THEN java_method('java.lang.Thread', 'sleep', 8L) END AS slept"
if sys.argv[5] == "late":
    spark.conf.set("spark.dynamicFilters.join.waitTimeout", "0s")
else:
    late = "SELECT j FROM dim WHERE g = 7"
compare(f'''SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {slow}
FROM (SELECT /*+ REPARTITION(8) */ * FROM big_{sys.argv[4]}) b JOIN ({late}) d ON b.k = d.j''', reducers=8)
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "filters"),
    [
        pytest.param("csv", "late", marks=pytest.mark.exhaustive),
        pytest.param("orc", "in time", marks=pytest.mark.exhaustive),
        pytest.param("csv", "in time", marks=pytest.mark.large),
        pytest.param("orc", "late", marks=pytest.mark.large),
    ],
)
def test_lost_map_outputs(tmp_path: Path, name: str, filters: str) -> None:
    # Rows of a round-robin exchange go by their position: if others come, some are lost or doubled.
    settings = '{"spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false"}'
    code = CODE + _LOST + "\nspark.stop()\n"
    out = run_application(code, tmp_path, settings, "40000", name, filters, seconds=200)
    assert int(value(out, "LOST")) > 0, out
    assert int(value(out, "FETCHES")) > 0, out
    assert value(out, "ERROR") == "", out
    assert value(out, "MISSING") == "0", out
    assert value(out, "EXTRA").startswith("0 "), out
    if filters == "in time":
        assert int(value(out, "PRUNED")) > 0, out

"""Exchanges that Spark computes once for several places, also for a query and its subqueries: narrowed for
each where few rows are expected, otherwise left as they are.

Spark plans a query and each of its subqueries without the others. Filters of equal build sides are one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import BROADCAST, FOREVER, SHUFFLED, STRATEGIES, Comparer, Run

SHARED = "an exchange that another part of the query uses too is in the way"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and o (key m), and b with keys of one row group; d with all of the keys j, of
    five years y, all of the same z; q, half of p, and f, the same in a folder for each y; third with a third
    of the keys k, few with few of these; h with the rows of p in a folder for each w, as third has it."""
    folder = tmp_path_factory.mktemp("shared")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "o", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    keys = range(joins.KEYS)
    years = pa.array([k * 5 // joins.KEYS for k in keys], pa.int32())
    zeros = pa.array([0 for _ in keys], pa.int32())
    joins.view(spark, folder, "d", pa.table({"j": pa.array(keys, pa.int64()), "y": years, "z": zeros}))
    joins.view(spark, folder, "q", joins.probe(rows=tables.ROWS // 2))
    by_y = spark.table("q").selectExpr("id", "v", "g % 4 AS y").coalesce(1)
    by_y.write.partitionBy("y").parquet(str(folder / "f"))
    by_w = spark.table("p").selectExpr("k", "id", "k DIV 3 % 7 AS w").where("k IS NOT NULL").coalesce(1)
    by_w.write.partitionBy("w").parquet(str(folder / "h"))
    for name in ("f", "h"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    third = pa.array(range(0, 1_800, 3), pa.int64())
    joins.view(spark, folder, "third", pa.table({"k": third, "w": [i % 7 for i in range(len(third))]}))
    joins.view(spark, folder, "few", pa.table({"k": pa.array(range(300, 330), pa.int64())}))
    return Comparer(spark)


def two(first: str, second: str) -> str:
    of = "SELECT p.id FROM p JOIN d ON p.k = d.j WHERE {}"
    return f"{of.format(first)} UNION ALL {of.format(second)}"


def is_shared(run: Run) -> bool:
    """Whether p is exchanged once for all places."""
    return len({s["scan_id"] for s in run.scans_with("k")}) < 2 and "ReusedExchange" in run.plan


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_each_place_has_its_own_rows(compare: Comparer, adaptive: str) -> None:
    settings = (SHUFFLED, joins.ADAPTIVE[adaptive])
    run = compare(two("d.y = 1", "d.y = 3"), *settings, plans=True, fires=adaptive == "on")
    assert is_shared(run.off)
    # Without adaptive execution nothing waits for a shuffled join's filter: it would come too late.
    assert is_shared(run.on) == (adaptive == "off")
    if adaptive == "on":
        joins.assert_row_groups_pruned(run.on, "k")
        assert all(s["row_groups_pruned"] > 0 for s in run.on.scans_with("k")), run.on


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(("value", "copied"), [("sum(x)", False), ("sum(v)", True)])
def test_values_by_the_order_of_rows_are_computed_once(
    compare: Comparer, adaptive: str, value: str, copied: bool
) -> None:
    """They equal themselves in stock Spark, which computes them once. Scans that leave out other files deal
    them to their tasks otherwise: a sum of floating point numbers had other last digits in another place."""
    query = (
        f"WITH s AS (SELECT k, g, {value} AS x FROM (SELECT *, 0.1D * id AS x FROM p) GROUP BY k, g) "
        "SELECT a.k, a.g FROM s a JOIN s b ON a.k = b.k AND a.x = b.x "
        "JOIN d ON a.k = d.j JOIN d AS e ON b.k = e.j WHERE d.y = 1 AND e.y = 1 AND e.z = 0"
    )
    settings = (SHUFFLED, joins.ADAPTIVE[adaptive])
    fires = joins.in_time("shuffled", adaptive) if copied else False
    run = compare(query, *settings, plans=True, fires=fires)
    assert "ReusedExchange" in run.off.plan
    if not copied:
        assert run.on.plan.count("ReusedExchange") == run.off.plan.count("ReusedExchange")
    elif adaptive == "on":
        joins.assert_row_groups_pruned(run.on, "k")


@pytest.mark.parametrize("pruned", [False, True], ids=["no_broadcast", "broadcast"])
def test_rows_of_a_partitioned_table_that_are_joined_with_themselves(compare: Comparer, pruned: bool) -> None:
    """Dynamic partition pruning is planned for one of both sides. Without a broadcast adaptive execution
    takes it away when it makes a stage of that side, and uses this stage for the other side, too. If the two
    are told apart before that, one is filtered by the other, and the table is read and shuffled twice."""
    of_v = "(SELECT f.y, f.id FROM f WHERE f.v = 3)"
    query = f"SELECT a.id, b.id FROM {of_v} a JOIN {of_v} b ON a.y = b.y"
    if pruned:
        # Used only for one of the sides: these are two exchanges for stock Spark, too.
        query += " JOIN (SELECT /*+ BROADCAST(d) */ j FROM d WHERE d.j % 500 < 3) d ON b.y = d.j"
    run = compare(query, SHUFFLED, plans=True, fires=pruned)
    assert run.on.plan.count("ReusedExchange") == run.off.plan.count("ReusedExchange") == 1
    if pruned:
        joins.assert_ready(run.on, "y")
    else:
        joins.assert_reason(run.on, SHARED)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("year", [2, 4])
def test_a_query_is_narrowed_as_its_subquery_was(compare: Comparer, adaptive: str, year: int) -> None:
    """The subquery is planned first, by itself, and is narrowed: to keep the query's exchange whole for it
    would be of no use to anybody."""
    query = (
        "SELECT p.id FROM p JOIN d ON p.k = d.j WHERE d.y = 2 "
        "AND p.id >= 0 AND p.id > "
        f"(SELECT min(p.id) FROM p JOIN d ON p.k = d.j WHERE d.y = {year} AND p.id >= 0) - 9"
    )
    settings = (SHUFFLED, joins.ADAPTIVE[adaptive])
    run = compare(query, *settings, plans=True, fires=joins.in_time("shuffled", adaptive))
    if adaptive == "on":
        joins.assert_row_groups_pruned(run.on, "k")
        # If both are the same query, Spark reads for one of them only, whichever comes first.
        assert year == 2 or all(s["row_groups_pruned"] > 0 for s in run.on.scans_with("k")), run.on


_YEAR = "(SELECT c.k, c.id FROM c JOIN d ON c.k = d.j WHERE d.y = {})"
_ALL = "(SELECT c.k, c.id FROM c)"


@pytest.mark.parametrize("reuse", ["true", "false"])
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    ("join", "first", "second"),
    [
        ("SELECT b.k, p.v FROM {} b JOIN p ON p.k = b.k", _YEAR.format(1), _YEAR.format(3)),
        ("SELECT b.k, p.v FROM {} b JOIN p ON p.k = b.k", _YEAR.format(0), _ALL),
        ("SELECT p.k, p.v FROM p LEFT SEMI JOIN {} b ON p.k = b.k", _YEAR.format(1), _YEAR.format(3)),
    ],
    ids=["inner", "one_whole", "semi_of_probe"],
)
def test_build_sides_that_joins_below_narrow_apart(
    compare: Comparer, join: str, first: str, second: str, adaptive: str, reuse: str
) -> None:
    """Both joins with p have equal build sides when they are planned, with one filter. What narrows these is
    planned after them, for each place by itself: the filter had the keys of one place for both."""
    hinted = join.replace("SELECT", "SELECT /*+ DYNAMIC_FILTER(p) */", 1)
    query = (
        f"WITH c AS (SELECT k, id FROM q) {hinted.format(first)} WHERE p.v >= 0 "
        f"UNION ALL {hinted.format(second)} WHERE p.v >= 1"
    )
    settings = (joins.ADAPTIVE[adaptive], {"spark.sql.exchange.reuse": reuse})
    run = compare(query, SHUFFLED, *settings, fires=joins.in_time("shuffled", adaptive)).on
    if adaptive == "on":
        joins.assert_ready(run, "k")


# Queries that Spark answers with one exchange in two places; o has another key than p.
REUSES = {
    "aggregate": (
        "WITH c AS (SELECT k, count(*) AS n FROM p GROUP BY k) "
        "SELECT x.k, y.n FROM c x JOIN c y ON x.k = y.k WHERE y.n > 1"
    ),
    "one_side": (
        "WITH c AS (SELECT /*+ REPARTITION(4, k) */ k, id FROM p) "
        "SELECT x.k, x.id, b.n FROM c x JOIN b ON x.k = b.j UNION ALL SELECT k, id, 0 FROM c"
    ),
    "two_builds": "SELECT p.id, x.n, y.n FROM p JOIN b x ON p.k = x.j JOIN b y ON p.k = y.j AND x.n = y.n",
    "self_join": "SELECT x.id FROM p x JOIN p y ON x.k = y.k AND x.id = y.id WHERE x.k IN (SELECT j FROM b)",
    "two_probes": "SELECT p.id FROM p JOIN b ON p.k = b.j UNION ALL SELECT o.id FROM o JOIN b ON o.m = b.j",
    "scalar": (
        "WITH c AS (SELECT k, count(*) AS n FROM p WHERE k IS NOT NULL GROUP BY k) "
        "SELECT c.k, c.n FROM c JOIN b ON c.k = b.j WHERE c.n <= (SELECT max(n) FROM c)"
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("case", REUSES)
def test_reuse_of_exchanges_is_kept(compare: Comparer, case: str, adaptive: str, strategy: str) -> None:
    # The exchange of p, which is needed as a whole, is the probe side.
    whole = (case, strategy) in (("self_join", "shuffled"), ("scalar", "shuffled"))
    fires = False if whole else joins.in_time(strategy, adaptive)
    if case == "scalar" and strategy == "broadcast":
        fires = None
    result = compare(REUSES[case], STRATEGIES[strategy], joins.ADAPTIVE[adaptive], plans=True, fires=fires)
    assert "Exchange" in result.off.plan
    for node in ("ReusedExchange", "ShuffleQueryStage", "BroadcastQueryStage"):
        assert result.on.plan.count(node) == result.off.plan.count(node), (
            f"{node}\n{result.off.plan}\n{result.on}"
        )
    if case == "two_probes" and fires:
        joins.assert_row_groups_pruned(result.on, "k", "m")


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_build_side_that_another_join_narrows_is_another_one(compare: Comparer, adaptive: str) -> None:
    """Both subqueries join p with the same rows of d, by the same key. In the first one d is narrowed by few
    before its keys are collected, because all three are shuffled by that key. The second one runs when the
    first one has ended."""
    narrow = "(SELECT /*+ DYNAMIC_FILTER(d) */ d.k FROM third d WHERE d.w < 5)"
    first = (
        "(SELECT /*+ DYNAMIC_FILTER(p) */ count(p.payload) FROM p "
        f"JOIN (SELECT d.k FROM {narrow} d JOIN few ON d.k = few.k) d ON p.k = d.k)"
    )
    second = f"(SELECT /*+ DYNAMIC_FILTER(p) */ count(p.payload) FROM p JOIN {narrow} d ON p.k = d.k)"
    query = (
        f"SELECT g, n, {second} AS s FROM (SELECT g, count(*) AS n FROM p WHERE g < {first} GROUP BY g) "
        f"WHERE n + {second} > 0"
    )
    run = compare(query, SHUFFLED, joins.ADAPTIVE[adaptive]).on
    assert run.rows
    if adaptive == "on":
        # Otherwise nothing waits for a shuffled join's filter, and a scan of this size may end before.
        joins.assert_pruned(run, "k")


_OF_YEAR = "d.w < 5"
_COUNTED = f"(SELECT count(d.k) FROM few LEFT JOIN third d ON few.k = d.k AND {_OF_YEAR})"
_JOINED = f"(SELECT min(p.k) FROM p JOIN third d ON p.k = d.k WHERE {_OF_YEAR})"


@pytest.mark.parametrize(
    "query",
    [
        # Broadcasts of dynamic partition pruning are planned without any rule of ours.
        "SELECT h.id FROM h JOIN third d ON h.k = d.k AND h.w = d.w WHERE d.k % 100 = 6",
        # In the left join every row counts, so there its broadcast has no tap.
        f"SELECT p.id FROM p JOIN third d ON p.k = d.k WHERE {_OF_YEAR} AND p.id > {_COUNTED}",
        # The query's broadcast comes before that of the subquery, which is above the join.
        "SELECT few.k FROM few LEFT JOIN third d "
        f"ON few.k = d.k AND {_OF_YEAR} WHERE ifnull(d.k, few.k) >= {_JOINED}",
    ],
    ids=["partition_pruning", "of_the_subquery", "of_the_query"],
)
def test_without_adaptive_execution_one_broadcast_is_of_a_query_and_its_subquery(
    compare: Comparer, query: str
) -> None:
    """Spark computes the one that it comes to first. If only the other one collects keys, no filter is ever
    complete, and the reason is that the build side did not run."""
    run = compare(query, BROADCAST, joins.ADAPTIVE["off"], plans=True)
    assert run.on.rows
    assert run.off.plan.count("ReusedExchange") == run.on.plan.count("ReusedExchange") == 1
    joins.assert_pruned(run.on, "k")
    assert {f["state"] for f in run.on.filters if f["filter_id"] is not None} == {"ready"}, run.on


_BLOOM = {
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold": "10MB",
}
_OF_D = "(SELECT d.k FROM third d JOIN few ON d.k = few.k WHERE d.w < 5)"
_EXISTS = f"EXISTS (SELECT 1 FROM p f2 JOIN {_OF_D} d2 ON f2.k = d2.k)"


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("conf", [{}, _BLOOM], ids=["exists", "bloom"])
def test_equal_subqueries_run_once(compare: Comparer, conf: dict[str, str], adaptive: str) -> None:
    """A filter whose build side may have other keys in a second run equals no other filter, so Spark does not
    reuse subqueries with such filters. The LIMIT 1 of an EXISTS and Spark's bloom filters of joins were taken
    for causes of that: nested subqueries ran once for each place (5 s became 108)."""
    in_d = f"(SELECT f3.k FROM p f3 JOIN {_OF_D} d3 ON f3.k = d3.k WHERE {_EXISTS})"
    top = f"(SELECT max(f4.id) FROM p f4 JOIN {in_d} d4 ON f4.k = d4.k)"
    query = (
        f"SELECT f.id FROM p f JOIN third d ON f.k = d.k WHERE {_EXISTS} AND f.id <= {top} AND d.w < {top}"
    )
    run = compare(query, SHUFFLED, joins.ADAPTIVE[adaptive], conf, plans=True, fires=None)
    assert run.off.plan.count("ReusedSubquery") > 0, run.off.plan
    assert run.on.plan.count("FileScan") <= run.off.plan.count("FileScan"), run.on.plan


def test_exchange_of_the_query_that_a_subquery_uses_instead_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By its hint the query does not narrow the customers, so it has no tap over the addresses. The subquery
    has one, which never runs: the wait for it would take as long as it may."""
    ids = pa.array(range(30_000), pa.int64())
    tables = {
        "sales": {"id": ids, "c": [i % 7_000 for i in range(30_000)]},
        "customers": {"k": ids[:9_000], "a": [i * 7 % 4_000 for i in range(9_000)]},
        "addresses": {"k": ids[100:3_000], "x": ids[:2_900]},
    }
    for name, columns in tables.items():
        joins.view(spark, tmp_path, name, pa.table(columns))
    rows = (
        "(SELECT {} sales.id, customers.k, addresses.x FROM sales "
        "JOIN customers ON sales.c = customers.k JOIN addresses ON customers.a = addresses.k)"
    )
    query = (
        f"SELECT k, sum(x) FROM {rows.format('/*+ NO_DYNAMIC_FILTER(customers) */')} WHERE id % 3 = 0 "
        f"GROUP BY k HAVING sum(x) > (SELECT avg(x) FROM {rows.format('')})"
    )
    # A filter that has all customers leaves nothing out, and a scan may start before the other one.
    run = Comparer(spark)(query, BROADCAST, FOREVER, fires=None).on
    assert run.seconds < 30, str(run)
    never = "the build side's exchange has run without collecting this key"
    assert never in [f["reason"] for f in run.filters], str(run)

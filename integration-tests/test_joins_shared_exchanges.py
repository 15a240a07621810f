"""Exchanges that Spark computes once for several places: narrowed for each where few rows are expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support import joins, tables
from support.joins import Comparer, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(170)

SHARED = "an exchange that another part of the query uses too is in the way"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p (key k), and d with all of its keys j, of five years y, all of the same z; q, half of
    p, and f, the same in a folder for each y."""
    folder = tmp_path_factory.mktemp("shared")
    joins.view(spark, folder, "p", joins.probe())
    keys = range(joins.KEYS)
    years = pa.array([k * 5 // joins.KEYS for k in keys], pa.int32())
    zeros = pa.array([0 for _ in keys], pa.int32())
    joins.view(spark, folder, "d", pa.table({"j": pa.array(keys, pa.int64()), "y": years, "z": zeros}))
    joins.view(spark, folder, "q", joins.probe(rows=tables.ROWS // 2))
    by_y = spark.table("q").selectExpr("id", "v", "g % 4 AS y").coalesce(1)
    by_y.write.partitionBy("y").parquet(str(folder / "f"))
    spark.read.parquet(str(folder / "f")).createOrReplaceTempView("f")
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
    settings = (joins.SHUFFLED, joins.ADAPTIVE[adaptive], joins.FOREVER)
    run = compare(two("d.y = 1", "d.y = 3"), *settings, plans=True, fires=adaptive == "on")
    assert is_shared(run.off)
    # Without adaptive execution nothing waits for a shuffled join's filter: it would come too late.
    assert is_shared(run.on) == (adaptive == "off")
    if adaptive == "on":
        joins.assert_row_groups_pruned(run.on, "k")
        assert all(s["row_groups_pruned"] > 0 for s in run.on.scans_with("k")), run.on


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_each_place_has_its_own_rows_where_years_are_broadcast(compare: Comparer, adaptive: str) -> None:
    spread = "(SELECT /*+ REPARTITION(3, g) */ * FROM p)"
    of = f"SELECT g, count(*) AS n FROM {spread} JOIN d ON k = j WHERE y = {{}} GROUP BY g"
    query = f"SELECT * FROM ({of.format(1)}) JOIN ({of.format(3)}) USING (g)"
    run = compare(query, joins.BROADCAST, joins.ADAPTIVE[adaptive], joins.FOREVER, plans=True)
    assert is_shared(run.off)
    assert not is_shared(run.on)
    joins.assert_row_groups_pruned(run.on, "k")
    assert all(s["row_groups_pruned"] > 0 for s in run.on.scans_with("k")), run.on


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("condition", ["d.y < {}", "d.y BETWEEN 1 AND {}"])
def test_what_may_be_most_rows_is_computed_once(compare: Comparer, adaptive: str, condition: str) -> None:
    query = two(condition.format(3), condition.format(4))
    run = compare(query, joins.SHUFFLED, joins.ADAPTIVE[adaptive], plans=True, fires=False)
    assert is_shared(run.off)
    joins.assert_reason(run.on, SHARED)
    assert run.on.plan.count("ReusedExchange") == run.off.plan.count("ReusedExchange")


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    ("value", "copied"),
    [("sum(x)", False), ("first(x)", False), ("sum(v)", True)],
    ids=["sum", "first", "exact"],
)
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
    settings = (joins.SHUFFLED, joins.ADAPTIVE[adaptive], joins.FOREVER)
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
    run = compare(query, joins.SHUFFLED, plans=True, fires=pruned)
    assert run.on.plan.count("ReusedExchange") == run.off.plan.count("ReusedExchange") == 1
    if pruned:
        joins.assert_ready(run.on, "y")
    else:
        joins.assert_reason(run.on, SHARED)


def test_equal_filters_are_one_and_so_is_the_exchange(compare: Comparer) -> None:
    run = compare(two("d.y = 2", "d.y = 2"), joins.SHUFFLED, joins.FOREVER, plans=True)
    assert is_shared(run.off)
    assert is_shared(run.on)
    joins.assert_row_groups_pruned(run.on, "k")


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_rows_that_are_joined_with_themselves_are_read_once(compare: Comparer, adaptive: str) -> None:
    query = "WITH c AS (SELECT * FROM p WHERE v = 3) SELECT x.id, y.id AS z FROM c x JOIN c y ON x.k = y.k"
    run = compare(query, joins.SHUFFLED, joins.ADAPTIVE[adaptive], plans=True, fires=False)
    assert is_shared(run.off)
    assert run.on.plan.count("ReusedExchange") == run.off.plan.count("ReusedExchange")


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
    settings = (joins.SHUFFLED, joins.ADAPTIVE[adaptive], joins.FOREVER)
    run = compare(query, *settings, plans=True, fires=joins.in_time("shuffled", adaptive))
    if adaptive == "on":
        joins.assert_row_groups_pruned(run.on, "k")
        # If both are the same query, Spark reads for one of them only, whichever comes first.
        assert year == 2 or all(s["row_groups_pruned"] > 0 for s in run.on.scans_with("k")), run.on


_YEAR = "(SELECT c.k, c.id FROM c JOIN d ON c.k = d.j WHERE d.y = {})"
_SEMI = "(SELECT c.k, c.id FROM c LEFT SEMI JOIN d ON c.k = d.j AND d.y = {})"
_ALL = "(SELECT c.k, c.id FROM c)"


@pytest.mark.parametrize(
    "settings", [{}, {"spark.sql.exchange.reuse": "false"}], ids=["reused", "not_reused"]
)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    ("join", "first", "second"),
    [
        ("SELECT b.k, p.v FROM {} b JOIN p ON p.k = b.k", _YEAR.format(1), _YEAR.format(3)),
        ("SELECT b.k, p.v FROM {} b JOIN p ON p.k = b.k", _SEMI.format(1), _SEMI.format(3)),
        ("SELECT b.k, p.v FROM {} b JOIN p ON p.k = b.k", _YEAR.format(0), _ALL),
        ("SELECT p.k, p.v FROM p LEFT SEMI JOIN {} b ON p.k = b.k", _YEAR.format(1), _YEAR.format(3)),
        (
            "SELECT p.k, p.v FROM p JOIN (SELECT k, count(*) FROM {} GROUP BY k) b ON p.k = b.k",
            _YEAR.format(1),
            _YEAR.format(3),
        ),
    ],
    ids=["inner", "semi", "one_whole", "semi_of_probe", "aggregated"],
)
def test_build_sides_that_joins_below_narrow_apart(
    compare: Comparer, join: str, first: str, second: str, adaptive: str, settings: dict[str, str]
) -> None:
    """Both joins with p have equal build sides when they are planned, with one filter. What narrows these is
    planned after them, for each place by itself: the filter had the keys of one place for both."""
    hinted = join.replace("SELECT", "SELECT /*+ DYNAMIC_FILTER(p) */", 1)
    query = (
        f"WITH c AS (SELECT k, id FROM q) {hinted.format(first)} WHERE p.v >= 0 "
        f"UNION ALL {hinted.format(second)} WHERE p.v >= 1"
    )
    for _ in range(2):
        fires = joins.in_time("shuffled", adaptive)
        run = compare(
            query, joins.SHUFFLED, joins.ADAPTIVE[adaptive], joins.FOREVER, settings, fires=fires
        ).on
        if adaptive == "on":
            joins.assert_ready(run, "k")

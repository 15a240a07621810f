"""What a join's type lets filters do: anti joins with NULLs above and below other joins, `<=>`, and exchanges
that a subquery uses too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import joins
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN = "p.k IN (SELECT j FROM b)"

# {r} is the right side of an anti join: with NULL, without, or empty.
RIGHT = {
    "with_null": "(SELECT i, h FROM r)",
    "null_free": "(SELECT i, h FROM r WHERE i IS NOT NULL)",
    "empty": "(SELECT i, h FROM r WHERE i < 0)",
}
ANTI: dict[str, str] = {
    "not_in_beside_in": f"SELECT p.id FROM p WHERE p.k NOT IN (SELECT i FROM {{r}}) AND {IN}",
    # The filter lets NULL pass: a NULL on the left is put out as soon as the right side has no row.
    "not_in_below_a_null_safe_join": (
        "SELECT x.id, bn.n FROM (SELECT * FROM p WHERE k NOT IN (SELECT i FROM {r})) x "
        "JOIN bn ON x.k <=> bn.j"
    ),
    "not_in_of_a_join": (
        f"SELECT p.id FROM p WHERE p.k NOT IN (SELECT q.m FROM q JOIN {{r}} x ON q.m = x.i) AND {IN}"
    ),
    "correlated_not_in": (
        f"SELECT p.id FROM p WHERE p.k NOT IN (SELECT x.i FROM {{r}} x WHERE x.h = p.g) AND {IN}"
    ),
    "not_exists_null_safe": (
        "SELECT x.id, bn.n FROM (SELECT * FROM p LEFT ANTI JOIN {r} y ON p.k <=> y.i) x "
        "JOIN bn ON x.k <=> bn.j"
    ),
}

# Filters that go down on the preserved side, and across to the equal key.
CARRIED: dict[str, tuple[str, tuple[str, ...]]] = {
    "not_in_left": (
        f"SELECT p.id FROM p WHERE p.k NOT IN (SELECT i FROM r WHERE i IS NOT NULL) AND {IN}",
        ("k",),
    ),
    "anti_right": (
        "SELECT x.id, b.n FROM (SELECT * FROM p LEFT ANTI JOIN q ON p.k = q.m AND q.v > p.v) x "
        "JOIN b ON x.k = b.j",
        ("k", "m"),
    ),
    "semi_right": (
        "SELECT x.id, b.n FROM (SELECT * FROM p LEFT SEMI JOIN q ON p.k = q.m AND q.v > p.v) x "
        "JOIN b ON x.k = b.j",
        ("k", "m"),
    ),
    "existence_right": (
        "SELECT x.id, b.n FROM (SELECT * FROM p WHERE p.v = 3 OR EXISTS "
        "(SELECT 1 FROM q WHERE q.m = p.k AND q.v > p.v)) x JOIN b ON x.k = b.j",
        ("k", "m"),
    ),
    "left_outer_right": (
        "SELECT x.*, b.n FROM (SELECT p.id, p.k, q.id AS i FROM p LEFT JOIN q ON p.k = q.m AND q.v > p.v) x "
        "JOIN b ON x.k = b.j",
        ("k", "m"),
    ),
    # The preserved side has no scan that can be filtered: only the other one is.
    "anti_right_only": (
        "SELECT x.id, b.n FROM (SELECT * FROM (SELECT id, k, v FROM p ORDER BY id LIMIT 900) p "
        "LEFT ANTI JOIN q ON p.k = q.m AND q.v > p.v) x JOIN b ON x.k = b.j",
        ("m",),
    ),
    "left_outer_right_only": (
        "SELECT x.*, b.n FROM (SELECT p.id, p.k, q.id AS i FROM (SELECT * FROM p ORDER BY id LIMIT 900) p "
        "LEFT JOIN q ON p.k = q.m AND q.v > p.v) x JOIN b ON x.k = b.j",
        ("m",),
    ),
}

# How the join beside an anti join is planned; NOT IN by one key is always broadcast.
PLANS = [("broadcast", "on"), ("broadcast", "off"), ("shuffled", "on")]


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and q (key m); b with keys of one row group, bn with NULL besides; r with some
    of these keys, others and NULL; d with ten keys.
    """
    folder = tmp_path_factory.mktemp("semantics")
    near = joins.within_row_group(3)
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "q", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(near))
    joins.view(spark, folder, "bn", joins.build([*near, None]))
    joins.view(spark, folder, "r", joins.build([1, 2, near[3], near[4], None], key="i"))
    joins.view(spark, folder, "d", joins.build(range(10)))
    spark.table("p").write.partitionBy("g").parquet(str(folder / "by_g"))
    spark.read.parquet(str(folder / "by_g")).createOrReplaceTempView("by_g")
    return Comparer(spark)


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("shape", ANTI)
@pytest.mark.parametrize("right", RIGHT)
def test_anti_joins_beside_other_joins(
    compare: Comparer, right: str, shape: str, strategy: str, adaptive: str
) -> None:
    settings = (STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER)
    # A NULL on the right side of NOT IN leaves no row: adaptive execution may drop scans before they run.
    fires = None if shape.startswith("not_in") and adaptive == "on" else True
    query = ANTI[shape].format(r=RIGHT[right])
    run = compare(query, *settings, expected=f"{shape}-{right}", fires=fires).on
    if shape.startswith("not_in_b"):
        assert not run.on_column("i"), f"the right side of NOT IN is filtered\n{run}"


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("shape", CARRIED)
def test_filters_are_carried(compare: Comparer, shape: str, strategy: str, adaptive: str) -> None:
    query, columns = CARRIED[shape]
    settings = (STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER)
    fires = joins.in_time(strategy, adaptive)
    result = compare(query, *settings, expected=f"carried-{shape}", fires=fires)
    assert result.off.rows, "the test's own data has no match"
    assert all(result.on.on_column(c) for c in columns), str(result.on)
    if adaptive == "on":
        joins.assert_row_groups_pruned(result.on, *columns)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_null_safe_keys_make_filters(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, bn.n FROM p JOIN bn ON p.k <=> bn.j AND p.g <=> bn.h"
    joins.assert_pruned(compare(query, STRATEGIES[strategy]).on, "k", "g")


def test_build_side_below_an_outer_join(compare: Comparer) -> None:
    queries = {
        "left": "SELECT p.id FROM p JOIN (SELECT b.j, d.t FROM b LEFT JOIN d ON b.h = d.j) x ON p.k = x.j",
        "anti": "SELECT p.id FROM p JOIN (SELECT b.j FROM b LEFT ANTI JOIN d ON b.n = d.j) x ON p.k = x.j",
    }
    for name, query in queries.items():
        fires = joins.in_time("shuffled", "off")
        result = compare(query, joins.SHUFFLED, joins.ADAPTIVE["off"], expected=f"below-{name}", fires=fires)
        assert result.off.rows
        assert result.on.on_column("k"), str(result.on)


# A partition filter of x by what is left of d; d itself is the probe of a join with b.
PRUNED = (
    "SELECT x.id, y.w FROM by_g x JOIN (SELECT j, n, w FROM d WHERE t < '000005') y ON x.g = y.j "
    "JOIN (SELECT j % 7 AS n FROM b WHERE n < 3) z ON y.n = z.n"
)
SCALAR = (
    "WITH c AS (SELECT k, count(*) AS n FROM p WHERE k IS NOT NULL GROUP BY k) "
    "SELECT c.k, c.n FROM c JOIN b ON c.k = b.j WHERE c.n <= (SELECT max(n) FROM c)"
)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(("query", "strategy"), [(PRUNED, "broadcast"), (SCALAR, "shuffled")])
def test_exchanges_of_subqueries_are_not_narrowed(
    compare: Comparer, query: str, strategy: str, adaptive: str
) -> None:
    # Spark's own partition pruning may do the same before.
    fires = None if query == PRUNED else False
    result = compare(query, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], plans=True, fires=fires)
    assert result.off.rows
    counted = ("ReusedExchange", "SubqueryBroadcast", "dynamicpruning")
    seen = {node: (result.off.plan.count(node), result.on.plan.count(node)) for node in counted}
    assert seen["ReusedExchange"][0] or seen["SubqueryBroadcast"][0], result.off.plan
    assert all(off == on for off, on in seen.values()), f"{seen}\n{result.off.plan}\n{result.on}"

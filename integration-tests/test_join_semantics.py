"""What a join's type lets filters do: anti joins with NULLs above and below other joins, `<=>` and what looks
like it, and exchanges that a subquery uses too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
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

# `<=>` and its look-alikes, of left columns a, d and right columns b, c.
ALIKE: dict[str, str] = {
    "null_safe": "a <=> b",
    "two_null_safe": "a <=> b AND d <=> c",
    "one_column_twice": "a <=> b AND a <=> c",
    "written_out": "coalesce(a, 0) = coalesce(b, 0) AND isnull(a) = isnull(b)",
    "tests_of_other_columns": (
        "coalesce(a, 0) = coalesce(b, 0) AND isnull(a) = isnull(c) AND isnull(d) = isnull(b)"
    ),
    "test_of_another_column": "coalesce(a, 0) = coalesce(b, 0) AND isnull(a) = isnull(c)",
    "no_test": "coalesce(a, 0) = coalesce(b, 0)",
    "other_defaults": "coalesce(a, 0) = coalesce(b, 1) AND isnull(a) = isnull(b)",
    "another_default": "coalesce(a, 1) = coalesce(b, 1) AND isnull(a) = isnull(b)",
    "null_safe_and_a_look_alike": "a <=> b AND coalesce(d, 0) = coalesce(c, 0)",
}

# Those with a key that is no expression.
NULL_SAFE = (
    "null_safe",
    "two_null_safe",
    "one_column_twice",
    "written_out",
    "null_safe_and_a_look_alike",
)

# How the join beside an anti join is planned; NOT IN by one key is always broadcast.
PLANS = [("broadcast", "on"), ("broadcast", "off"), ("shuffled", "on")]


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and q (key m); b with keys of one row group, bn with NULL besides; r with some
    of these keys, others and NULL; lefts (a, d) and rights (b, c) with all pairs of NULL, 0, 1 and 2; d
    with ten keys.
    """
    folder = tmp_path_factory.mktemp("semantics")
    near = joins.within_row_group(3)
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "q", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(near))
    joins.view(spark, folder, "bn", joins.build([*near, None]))
    joins.view(spark, folder, "r", joins.build([1, 2, near[3], near[4], None], key="i"))
    joins.view(spark, folder, "d", joins.build(range(10)))
    values = [None, 0, 1, 2]
    pairs = [(x, y) for x in values for y in values]
    for name, columns in {"lefts": "ad", "rights": "bc"}.items():
        data = {c: pa.array([pair[i] for pair in pairs], pa.int64()) for i, c in enumerate(columns)}
        joins.view(spark, folder, name, pa.table(data))
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
@pytest.mark.parametrize("condition", ALIKE)
def test_null_safe_keys_and_look_alikes(compare: Comparer, condition: str, strategy: str) -> None:
    # One value is left on the build side, once of each side.
    branches = [
        f"SELECT /*+ {hint} */ '{value}' AS v, a, d, b, c FROM {probe} "
        f"JOIN (SELECT * FROM {build} WHERE {key} {value}) x ON {ALIKE[condition]}"
        for probe, build, key in (("lefts", "rights", "b"), ("rights", "lefts", "a"))
        for value in ("IS NULL", "= 0", "= 1")
        for hint in ["BROADCAST(x)" if strategy == "broadcast" else "MERGE(x)"]
    ]
    # Scans of 16 rows are not held back for the filter of a shuffled join.
    in_time = True if strategy == "broadcast" else None
    fires = in_time if condition in NULL_SAFE else False
    compare(" UNION ALL ".join(branches), STRATEGIES[strategy], fires=fires)


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

"""Joins of many shapes: what is between the join and the probe's scan, and what is on its build side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest

from support import joins, tables
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Queries whose filters have to reach the scans of these columns.
PASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "alias_of_alias": (
        "SELECT y.z, b.n FROM (SELECT kk AS z FROM (SELECT k AS kk FROM p)) y JOIN b ON y.z = b.j",
        ("k",),
    ),
    "filter_on_key": ("SELECT p.id FROM p JOIN b ON p.k = b.j WHERE p.k > 100 AND p.k < 1500", ("k",)),
    "filter_with_subquery": (
        "SELECT p.id FROM p JOIN b ON p.k = b.j WHERE p.id > (SELECT min(n) FROM c)",
        ("k",),
    ),
    "union_in_other_order": (
        "SELECT u.id, b.n FROM (SELECT id, v, k FROM p UNION ALL SELECT id + 10000, g, m FROM q) u "
        "JOIN b ON u.k = b.j",
        ("k", "m"),
    ),
    "aggregate": (
        "SELECT x.*, b.n FROM (SELECT k, count(*) AS c, max(payload) FROM p GROUP BY k) x "
        "JOIN b ON x.k = b.j",
        ("k",),
    ),
    "window_with_two_partition_keys": (
        "SELECT x.*, b.n FROM (SELECT k, id, sum(v) OVER (PARTITION BY g, k) AS r FROM p) x "
        "JOIN b ON x.k = b.j",
        ("k",),
    ),
    "sort": ("SELECT x.*, b.n FROM (SELECT k, id FROM p SORT BY id) x JOIN b ON x.k = b.j", ("k",)),
    "repartition": (
        "SELECT x.*, b.n FROM (SELECT /*+ REPARTITION(3) */ k, id FROM p) x JOIN b ON x.k = b.j",
        ("k",),
    ),
    "two_exchanges_down": (
        "SELECT x.*, b.n FROM (SELECT k, max(c) AS c FROM (SELECT k, g, count(*) AS c FROM p GROUP BY k, g) "
        "GROUP BY k) x JOIN b ON x.k = b.j",
        ("k",),
    ),
    "in_two_columns": ("SELECT p.id FROM p WHERE (p.k, p.g) IN (SELECT j, h FROM b)", ("k",)),
    "correlated_aggregate": (
        "SELECT p.id FROM p WHERE p.id > (SELECT max(b.n) FROM b WHERE b.j = p.k)",
        ("k",),
    ),
    "residual_condition": ("SELECT p.id, b.n FROM p JOIN b ON p.k = b.j AND p.id > b.n * 80", ("k",)),
    "two_filters_on_one_column": (
        "SELECT p.id FROM p JOIN b ON p.k = b.j JOIN (SELECT j AS i FROM b2) x ON p.k = x.i",
        ("k",),
    ),
    "star_with_semi_join": (
        "SELECT f.id, d1.t FROM f JOIN d1 ON f.a = d1.j WHERE d1.n < 20 AND f.e IN (SELECT j FROM d2)",
        ("a", "e"),
    ),
    "above_a_left_join": (
        "SELECT p.id, c.t, b.n FROM p LEFT JOIN c ON p.g = c.i JOIN b ON p.k = b.j",
        ("k",),
    ),
    "above_an_anti_join": (
        "SELECT x.id, b.n FROM (SELECT * FROM p LEFT ANTI JOIN c ON p.g = c.i AND c.n > 3) x "
        "JOIN b ON x.k = b.j",
        ("k",),
    ),
    "above_an_aggregate_and_a_join": (
        "SELECT x.*, b.n FROM (SELECT p.k, count(c.t) AS c FROM p JOIN c ON p.g = c.i GROUP BY p.k) x "
        "JOIN b ON x.k = b.j",
        ("k",),
    ),
    "key_of_the_other_side": (
        # c's key is the probe's: what b says of one it says of the other.
        "SELECT p.id, b.n FROM p JOIN c2 ON p.k = c2.i JOIN b ON c2.i = b.j",
        ("k",),
    ),
    "build_of_a_distinct_union": (
        "SELECT p.id FROM p JOIN (SELECT j FROM b UNION SELECT j FROM b2) x ON p.k = x.j",
        ("k",),
    ),
    "build_of_a_join": (
        "SELECT p.id, x.n FROM p JOIN (SELECT b.j, b.n FROM b LEFT SEMI JOIN c ON b.h = c.i) x ON p.k = x.j",
        ("k",),
    ),
    "build_filtered": ("SELECT p.id, d1.t FROM p JOIN d1 ON p.k = d1.j WHERE d1.t LIKE '00030%'", ("k",)),
    "explode": (
        "SELECT x.id, x.e FROM (SELECT id, k, explode(array(1, 2)) AS e FROM p) x JOIN b ON x.k = b.j",
        ("k",),
    ),
    "scalar_subquery_inside": (
        "SELECT (SELECT sum(p.id) FROM p JOIN b ON p.k = b.j) AS s, count(*) FROM c",
        ("k",),
    ),
}


# Build sides that might be other rows when a task is tried again.
NOT_REPEATABLE = {
    "rand": "(SELECT * FROM b WHERE rand(3) < 0.9)",
    "key_with_rand": "(SELECT j + CAST(floor(rand(3)) AS INT) AS j FROM b)",
    "sample": "(SELECT * FROM b TABLESAMPLE (60 PERCENT) REPEATABLE (3))",
    "aggregate_of_rand": "(SELECT j, max(n) FROM b WHERE rand(3) < 0.9 GROUP BY j)",
}


class Stop(NamedTuple):
    """A query in which no row of column `k` may be skipped.

    Attributes:
        reason: words of the reason, if one is due.
        fires: None if the other side may be filtered.
    """

    query: str
    reason: str = ""
    fires: bool | None = False


STOPS = {
    "limit": Stop(
        "SELECT x.id FROM (SELECT * FROM p LIMIT 4000) x JOIN b ON x.k = b.j", "a limit is in the way"
    ),
    "topk": Stop(
        "SELECT x.id FROM (SELECT * FROM p ORDER BY id LIMIT 900) x JOIN b ON x.k = b.j",
        "a limit is in the way",
        # The TopK has a filter of its own.
        None,
    ),
    "sample": Stop(
        "SELECT x.id FROM (SELECT * FROM p TABLESAMPLE (50 PERCENT) REPEATABLE (7)) x JOIN b ON x.k = b.j",
        "a sample is in the way",
    ),
    "non_deterministic_projection": Stop(
        "SELECT x.id, x.m FROM (SELECT *, monotonically_increasing_id() AS m FROM p) x JOIN b ON x.k = b.j",
        "a non-deterministic projection is in the way",
    ),
    "non_deterministic_filter": Stop(
        "SELECT x.id FROM (SELECT * FROM p WHERE rand(7) < 0.5) x JOIN b ON x.k = b.j",
        "a non-deterministic filter is in the way",
    ),
    "key_from_a_generator": Stop(
        "SELECT x.id FROM (SELECT id, explode(array(k, k + 1)) AS e FROM p) x JOIN b ON x.e = b.j",
    ),
    "aggregate_not_by_the_key": Stop(
        "SELECT x.* FROM (SELECT g, max(k) AS k FROM p GROUP BY g) x JOIN b ON x.k = b.j"
    ),
    "window_not_by_the_key": Stop(
        "SELECT x.* FROM (SELECT k, id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM p) x "
        "JOIN b ON x.k = b.j",
        "in the way",
    ),
    "window_without_partitions": Stop(
        "SELECT x.* FROM (SELECT k, id, sum(v) OVER (ORDER BY id) AS r FROM p) x JOIN b ON x.k = b.j",
        "in the way",
    ),
    "null_supplying_side": Stop(
        # A row of p less would be a row with nulls more.
        "SELECT x.i, x.id, b.n FROM (SELECT c.i, p.k, p.id FROM c LEFT JOIN p ON c.i = p.g AND p.id < 900) x "
        "JOIN (SELECT j, n FROM b UNION ALL SELECT CAST(NULL AS BIGINT), 99) b ON x.k <=> b.j"
    ),
    "below_a_full_join": Stop(
        "SELECT x.i, x.id, b.n FROM (SELECT c.i, p.k, p.id FROM c FULL JOIN p ON c.i = p.g + 5) x "
        "JOIN (SELECT j, n FROM b UNION ALL SELECT CAST(NULL AS BIGINT), 99) b ON x.k <=> b.j"
    ),
    "condition_on_one_side_of_an_outer_join": Stop(
        "SELECT p.id, b.n FROM p LEFT JOIN b ON p.k = b.j AND p.g = 3"
    ),
    # Adaptive execution may make the one row of x the build side, and b the side that is filtered.
    "aggregate_without_groups": Stop(
        "SELECT x.c FROM (SELECT count(*) AS c, sum(k) AS k FROM p) x JOIN b ON x.k = b.j", fires=None
    ),
    "greater": Stop("SELECT p.id, b.n FROM p JOIN b ON p.k > b.j + 1650", "no equal keys"),
    "or": Stop("SELECT p.id FROM p JOIN b ON p.k = b.j OR p.id = b.n", "no equal keys"),
    "cross": Stop("SELECT p.id, c.i FROM p CROSS JOIN c"),
}


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and q (key m); builds b and b2 with keys of one row group; small c and c2; a
    fact table f with keys a and e, and its dimensions d1 and d2.
    """
    folder = tmp_path_factory.mktemp("plans")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "q", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    joins.view(spark, folder, "b2", joins.build(joins.within_row_group(3, 40)))
    joins.view(spark, folder, "c", joins.build(range(10), key="i"))
    joins.view(spark, folder, "c2", joins.build(range(0, joins.KEYS, 8), key="i"))
    fact = joins.probe(key="a")
    e = [i % 200 // 20 + 10 * (i // 200) for i in range(tables.ROWS)]
    joins.view(spark, folder, "f", fact.append_column("e", pa.array(e, pa.int64())))
    joins.view(spark, folder, "d1", joins.build(range(300, 600)))
    joins.view(spark, folder, "d2", joins.build(range(30, 60)))
    return Comparer(spark)


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", PASSES)
def test_passes(compare: Comparer, shape: str, strategy: str) -> None:
    query, columns = PASSES[shape]
    result = compare(query, STRATEGIES[strategy], expected=shape)
    assert result.off.rows, "the test's own data has no match"
    joins.assert_row_groups_pruned(result.on, *columns)


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", STOPS)
def test_stops(compare: Comparer, shape: str, strategy: str) -> None:
    query, reason, fires = STOPS[shape]
    run = compare(query, STRATEGIES[strategy], expected=shape, fires=fires).on
    joins.assert_not_pruned(run, "k")
    if reason:
        joins.assert_reason(run, reason)


@pytest.mark.core
@pytest.mark.parametrize("build", NOT_REPEATABLE)
def test_build_side_that_is_not_deterministic(compare: Comparer, build: str) -> None:
    query = f"SELECT p.id FROM p JOIN {NOT_REPEATABLE[build]} x ON p.k = x.j"
    run = compare(query, joins.SHUFFLED, fires=False).on
    joins.assert_not_pruned(run, "k")
    joins.assert_reason(run, "not deterministic")
    # Keys that are aggregated come from an exchange, and the filter of a broadcast join from above it.
    compare(query, joins.BROADCAST, fires=build == "aggregate_of_rand")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chain_of_a_snowflake(compare: Comparer, strategy: str) -> None:
    # c2 alone has keys of every row group of p: only what b leaves of it makes its filter a small one.
    query = (
        "SELECT p.id, c2.t, b.n FROM p JOIN c2 ON p.k = c2.i JOIN b ON c2.t = b.t WHERE b.n BETWEEN 2 AND 19"
    )
    result = compare(query, STRATEGIES[strategy])
    assert result.off.rows
    joins.assert_row_groups_pruned(result.on, "k")
    assert sum(s["rows_output"] for s in result.on.scans_with("k")) <= 200, str(result.on)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_dimensions_of_a_star_count(compare: Comparer, strategy: str) -> None:
    query = "SELECT f.id FROM f JOIN d1 ON f.a = d1.j JOIN d2 ON f.e = d2.j WHERE d1.n < 20 AND d2.n < 3"
    run = compare(query, STRATEGIES[strategy]).on
    (scan,) = run.scans_with("a")
    assert {f["filter_id"] for f in [*run.on_column("a"), *run.on_column("e")]} <= set(scan["filter_ids"])
    assert scan["rows_output"] <= 100, str(run)


def test_topk_and_join_on_one_scan(compare: Comparer, spark: SparkSession) -> None:
    query = "SELECT p.id, p.payload, b2.n FROM p JOIN b2 ON p.k = b2.j ORDER BY p.id DESC LIMIT 5"
    run = compare(query, joins.BROADCAST).on
    joins.assert_row_groups_pruned(run, "k")
    assert run.report is not None
    producers = {f["filter_id"]: f["producer"] for f in run.report.filters if f["state"] != "disabled"}
    (scan,) = run.scans_with("k")
    assert {producers[i] for i in scan["filter_ids"]} == {"join", "topk"}, str(run)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_explain_runs_nothing(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, b.n FROM p JOIN b ON p.k = b.j"
    settings = STRATEGIES[strategy]
    for adaptive in joins.ADAPTIVE.values():
        with joins.settings(spark, settings, adaptive, joins.FOREVER):
            plan = spark.sql(f"EXPLAIN FORMATTED {query}").collect()[0][0]
        assert "DynamicFilter#" in plan
        assert "[k: not known yet]" in plan

"""Joins of many shapes: what is between the join and the probe's scan, and what is on its build side."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import STRATEGIES, Comparer

_PAIRS = "p.k = q.m AND q.v > p.v"

# Queries whose filters have to reach the scan of column k.
PASSES = {
    "alias_of_alias": (
        "SELECT y.z, b.n FROM (SELECT kk AS z FROM (SELECT k AS kk FROM p)) y JOIN b ON y.z = b.j"
    ),
    "filter_with_subquery": "SELECT p.id FROM p JOIN b ON p.k = b.j WHERE p.id > (SELECT min(n) FROM c)",
    "union_in_other_order": (
        "SELECT u.id, b.n FROM (SELECT id, v, k FROM p UNION ALL SELECT id + 10000, g, m FROM q) u "
        "JOIN b ON u.k = b.j"
    ),
    "window_with_two_partition_keys": (
        "SELECT x.*, b.n FROM (SELECT k, id, sum(v) OVER (PARTITION BY g, k) AS r FROM p) x "
        "JOIN b ON x.k = b.j"
    ),
    "sort": "SELECT x.*, b.n FROM (SELECT k, id FROM p SORT BY id) x JOIN b ON x.k = b.j",
    "repartition": "SELECT x.*, b.n FROM (SELECT /*+ REPARTITION(3) */ k, id FROM p) x JOIN b ON x.k = b.j",
    "grouping_sets_with_the_key": (
        "SELECT x.* FROM (SELECT k, g, count(*) AS c FROM p GROUP BY k, ROLLUP(g)) x JOIN b ON x.k = b.j"
    ),
    "two_exchanges_down": (
        "SELECT x.*, b.n FROM (SELECT k, max(c) AS c FROM (SELECT k, g, count(*) AS c FROM p GROUP BY k, g) "
        "GROUP BY k) x JOIN b ON x.k = b.j"
    ),
    "in_two_columns": "SELECT p.id FROM p WHERE (p.k, p.g) IN (SELECT j, h FROM b)",
    "correlated_aggregate": "SELECT p.id FROM p WHERE p.id > (SELECT max(b.n) FROM b WHERE b.j = p.k)",
    "two_filters_on_one_column": (
        "SELECT p.id FROM p JOIN b ON p.k = b.j JOIN (SELECT j AS i FROM b2) x ON p.k = x.i"
    ),
    "above_an_aggregate_and_a_join": (
        "SELECT x.*, b.n FROM (SELECT p.k, count(c.t) AS c FROM p JOIN c ON p.g = c.i GROUP BY p.k) x "
        "JOIN b ON x.k = b.j"
    ),
    "key_of_the_other_side": (
        # c's key is the probe's: what b says of one it says of the other.
        "SELECT p.id, b.n FROM p JOIN c2 ON p.k = c2.i JOIN b ON c2.i = b.j"
    ),
    "build_of_a_distinct_union": (
        "SELECT p.id FROM p JOIN (SELECT j FROM b UNION SELECT j FROM b2) x ON p.k = x.j"
    ),
    "explode": "SELECT x.id, x.e FROM (SELECT id, k, explode(array(1, 2)) AS e FROM p) x JOIN b ON x.k = b.j",
    # Down on the preserved side of a join below, and across to the equal key.
    "not_in_left": (
        "SELECT p.id FROM p WHERE p.k NOT IN (SELECT i FROM r WHERE i IS NOT NULL) "
        "AND p.k IN (SELECT j FROM b)"
    ),
    "anti_right": (
        f"SELECT x.id, b.n FROM (SELECT * FROM p LEFT ANTI JOIN q ON {_PAIRS}) x JOIN b ON x.k = b.j"
    ),
    "existence_right": (
        f"SELECT x.id, b.n FROM (SELECT * FROM p WHERE p.v = 3 OR EXISTS (SELECT 1 FROM q WHERE {_PAIRS})) x "
        "JOIN b ON x.k = b.j"
    ),
    # The preserved side has no scan that can be filtered: only the other one is.
    "left_outer_right_only": (
        "SELECT x.*, b.n FROM (SELECT p.id, p.k, q.id AS i FROM (SELECT * FROM p ORDER BY id LIMIT 900) p "
        f"LEFT JOIN q ON {_PAIRS}) x JOIN b ON x.k = b.j"
    ),
}
#: Where it is not k.
COLUMNS = {
    **dict.fromkeys(("union_in_other_order", "anti_right", "existence_right"), ("k", "m")),
    "left_outer_right_only": ("m",),
}

# Build sides that might be other rows when a task is tried again.
NOT_REPEATABLE = {
    "key_with_rand": "(SELECT j + CAST(floor(rand(3)) AS INT) AS j FROM b)",
    "sample": "(SELECT * FROM b TABLESAMPLE (60 PERCENT) REPEATABLE (3))",
    "aggregate_of_rand": "(SELECT j, max(n) FROM b WHERE rand(3) < 0.9 GROUP BY j)",
}


# Queries in which no row of column k may be skipped, and words of the reason, if one is due.
STOPS = {
    # The TopK has a filter of its own.
    "topk": (
        "SELECT x.id FROM (SELECT * FROM p ORDER BY id LIMIT 900) x JOIN b ON x.k = b.j",
        "a limit is in the way",
    ),
    "sample": (
        "SELECT x.id FROM (SELECT * FROM p TABLESAMPLE (50 PERCENT) REPEATABLE (7)) x JOIN b ON x.k = b.j",
        "a sample is in the way",
    ),
    "non_deterministic_projection": (
        "SELECT x.id, x.m FROM (SELECT *, monotonically_increasing_id() AS m FROM p) x JOIN b ON x.k = b.j",
        "a non-deterministic projection is in the way",
    ),
    "non_deterministic_filter": (
        "SELECT x.id FROM (SELECT * FROM p WHERE rand(7) < 0.5) x JOIN b ON x.k = b.j",
        "a non-deterministic filter is in the way",
    ),
    "key_from_a_generator": (
        "SELECT x.id FROM (SELECT id, explode(array(k, k + 1)) AS e FROM p) x JOIN b ON x.e = b.j",
        "",
    ),
    "aggregate_not_by_the_key": (
        "SELECT x.* FROM (SELECT g, max(k) AS k FROM p GROUP BY g) x JOIN b ON x.k = b.j",
        "",
    ),
    "rollup": (
        "SELECT x.* FROM (SELECT k, g, count(*) AS c FROM p GROUP BY ROLLUP(k, g)) x JOIN b ON x.k = b.j",
        "",
    ),
    "window_not_by_the_key": (
        "SELECT x.* FROM (SELECT k, id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM p) x "
        "JOIN b ON x.k = b.j",
        "in the way",
    ),
    # A row of p less would be a row with nulls more.
    "null_supplying_side": (
        "SELECT x.i, x.id, b.n FROM (SELECT c.i, p.k, p.id FROM c LEFT JOIN p ON c.i = p.g AND p.id < 900) x "
        "JOIN (SELECT j, n FROM b UNION ALL SELECT CAST(NULL AS BIGINT), 99) b ON x.k <=> b.j",
        "",
    ),
    # Adaptive execution may make the one row of x the build side, and b the side that is filtered.
    "aggregate_without_groups": (
        "SELECT x.c FROM (SELECT count(*) AS c, sum(k) AS k FROM p) x JOIN b ON x.k = b.j",
        "",
    ),
}
OTHER_FILTERS = ("topk", "aggregate_without_groups")


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and q (key m); builds b and b2 with keys of one row group; r with some of
    these keys, others and NULL; small c and c2; a fact table f with keys a and e, and its dimensions d1 and
    d2.
    """
    folder, near = tmp_path_factory.mktemp("plans"), joins.within_row_group(3)
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "q", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(near))
    joins.view(spark, folder, "b2", joins.build(joins.within_row_group(3, 40)))
    joins.view(spark, folder, "r", joins.build([1, 2, near[3], near[4], None], key="i"))
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
    result = compare(PASSES[shape], STRATEGIES[strategy], joins.FOREVER, expected=shape)
    assert result.off.rows, "the test's own data has no match"
    joins.assert_row_groups_pruned(result.on, *COLUMNS.get(shape, ("k",)))
    if shape == "not_in_left":
        assert not result.on.on_column("i"), f"the right side of NOT IN is filtered\n{result.on}"


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", STOPS)
def test_stops(compare: Comparer, shape: str, strategy: str) -> None:
    query, reason = STOPS[shape]
    fires = None if shape in OTHER_FILTERS else False
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


def test_topk_and_join_on_one_scan(compare: Comparer) -> None:
    query = "SELECT p.id, p.payload, b2.n FROM p JOIN b2 ON p.k = b2.j ORDER BY p.id DESC LIMIT 5"
    run = compare(query, joins.BROADCAST).on
    joins.assert_row_groups_pruned(run, "k")
    assert run.report is not None
    producers = {f["filter_id"]: f["producer"] for f in run.report.filters if f["state"] != "disabled"}
    (scan,) = run.scans_with("k")
    assert {producers[i] for i in scan["filter_ids"]} == {"join", "topk"}, str(run)


def test_partition_column_with_nulls(spark: SparkSession, tmp_path: Path, compare: Comparer) -> None:
    parts = spark.sql("SELECT *, IF(g = 0, NULL, CAST(g AS STRING)) AS part FROM p").coalesce(1)
    parts.write.partitionBy("part").parquet(str(tmp_path / "parted"))
    schema = "k BIGINT, id BIGINT, payload STRING, part STRING"
    spark.read.schema(schema).parquet(str(tmp_path / "parted")).createOrReplaceTempView("parted")
    off = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
    for how, settings in zip(("=", "<=>"), STRATEGIES.values(), strict=True):
        query = (
            "SELECT x.id FROM parted x "
            f"JOIN (SELECT IF(n = 1, NULL, '7') AS part FROM b WHERE n < 3) y ON x.part {how} y.part"
        )
        assert compare(query, off, settings).off.rows


def test_bucketed_tables(spark: SparkSession, compare: Comparer) -> None:
    for name, source, key in (("bucketed_p", "p", "k"), ("bucketed_b", "b", "j")):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.table(source).write.bucketBy(4, key).sortBy(key).saveAsTable(name)
    try:
        # A join that is not broadcast needs no exchange on either side: nothing collects the keys.
        query = "SELECT p.id, b.n FROM bucketed_p p JOIN bucketed_b b ON p.k = b.j"
        for strategy, settings in STRATEGIES.items():
            assert compare(query, settings, fires=strategy == "broadcast").off.rows
        # The groups are of the same stage as the join, and come from its scan: the same in every attempt.
        grouped = "(SELECT k, count(*) AS c, percentile_approx(id, 0.5) AS m FROM bucketed_p GROUP BY k) g"
        query = f"SELECT g.k, g.c, g.m, b.n FROM {grouped} JOIN b ON g.k = b.j"
        joins.assert_pruned(compare(query, STRATEGIES["broadcast"]).on, "k")
    finally:
        spark.sql("DROP TABLE bucketed_p")
        spark.sql("DROP TABLE bucketed_b")

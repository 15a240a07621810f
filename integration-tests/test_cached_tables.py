"""Cached data: batches are left out by their statistics, rows below an exchange; a cache is filled whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_dynamic_filters as sdf
from support import joins, tables
from support.checks import ORDERS, Check, assert_rejected, assert_row_groups_pruned
from support.joins import ADAPTIVE, STRATEGIES, Comparer

#: As many rows as a row group of `t` has, which are next to each other in each column.
BATCH = tables.ROW_GROUP_ROWS


_NUMBERS = itertools.count(1)


@contextmanager
def cached(spark: SparkSession, frame: DataFrame, name: str, is_filled: bool = True) -> Iterator[str]:
    """The name of a view of the rows; the cache is filled by then, or by the first query of the view."""
    with joins.settings(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(BATCH)}):
        # Equal plans have one cache.
        distinct = frame.where(f"id >= -{next(_NUMBERS)}")
        kept = distinct.cache()
        try:
            if is_filled:
                kept.count()
            kept.createOrReplaceTempView(name)
            yield name
        finally:
            kept.unpersist()


@pytest.fixture(scope="module")
def c(spark: SparkSession, t: str) -> Iterator[str]:
    with cached(spark, spark.table(t), "c") as name:
        yield name


@pytest.fixture(scope="module")
def few(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Keys of two batches, and some that are nowhere; one is NULL."""
    rows = [
        r
        for r in tables.all_types().select(["id", "c_string", "c_double"]).to_pylist()
        if r["id"] % 2000 < 20
    ]
    rows += [{"id": None, "c_string": None, "c_double": None}, {"id": -1, "c_string": "", "c_double": 1.5}]
    keys = pa.table(
        {"j": [r["id"] for r in rows], "s": [r["c_string"] for r in rows], "d": [r["c_double"] for r in rows]}
    )
    return joins.view(spark, tmp_path_factory.mktemp("few"), "few", keys)


TOPKS = {
    "worst": "SELECT * FROM c ORDER BY id DESC LIMIT 10",
    "groups": "SELECT id, count(*) AS n FROM c GROUP BY id ORDER BY id LIMIT 7",
    "rank": "SELECT * FROM (SELECT id, rank() OVER (ORDER BY id) AS r FROM c) WHERE r <= 5",
    "min_and_max": "SELECT min(id), max(id) FROM c",
}


@pytest.mark.core
@pytest.mark.parametrize("case", TOPKS)
def test_best_rows(assert_same_result: Check, c: str, case: str) -> None:
    assert_row_groups_pruned(assert_same_result(TOPKS[case], ordered=case in ("worst", "groups")))


def test_binary_has_no_bounds(assert_same_result: Check, c: str) -> None:
    query = f"SELECT c_binary, id FROM {c} ORDER BY c_binary, id LIMIT 5"
    result = assert_same_result(query, ordered=True, fires=False)
    assert_rejected(result, "cached data has no statistics of type binary")


def test_numbers_that_are_none(spark: SparkSession, tmp_path: Path, same_twice: Check) -> None:
    frame = spark.range(0, 20 * BATCH, 1, 2).selectExpr(
        "id",
        # In batches of their own: NaN only, nulls only, infinite, both zeros, and NaN among others.
        f"CASE id DIV {BATCH} WHEN 1 THEN double('NaN') WHEN 3 THEN NULL WHEN 5 THEN double('inf') "
        "WHEN 7 THEN double('-inf') WHEN 9 THEN IF(id % 2 = 0, 0.0D, -0.0D) "
        "WHEN 11 THEN IF(id % 7 = 0, double('NaN'), 11.0D) ELSE id / 10D END AS d",
    )
    with cached(spark, frame, "odd") as name:
        same_twice(f"SELECT * FROM {name} ORDER BY d {ORDERS[0]}, id LIMIT 60", ordered=True)
        same_twice(f"SELECT min(d), max(d) FROM {name}")
        for key in ("nan", "-0.0", "11.0"):
            joins.view(spark, tmp_path / key, "keys", pa.table({"j": [float(key)] * 3}))
            query = f"SELECT /*+ BROADCAST(b) */ o.id FROM {name} o JOIN keys b ON o.d = b.j"
            result = same_twice(query, fires=key != "nan")
            assert any(f["generation"] > 0 for f in result.filters), result.analysis
            if key != "nan":
                assert_row_groups_pruned(result)


JOINS = {
    "inner": "SELECT c.id, few.s FROM c JOIN few ON c.id = few.j",
    "semi": "SELECT c.id FROM c LEFT SEMI JOIN few ON c.id = few.j",
    "right": "SELECT c.id, few.s FROM c RIGHT JOIN few ON c.id = few.j",
    "null_safe": "SELECT c.id FROM c JOIN few ON c.id <=> few.j",
    "string": "SELECT c.id FROM c JOIN few ON c.c_string = few.s",
    "double": "SELECT c.id FROM c JOIN few ON c.c_double = few.d",
    "aggregate": "SELECT x.* FROM (SELECT id, max(c_int) FROM c GROUP BY id) x JOIN few ON x.id = few.j",
    "self": "SELECT a.id FROM c a JOIN (SELECT id FROM c WHERE c_int % 50 = 3) b ON a.id = b.id",
}


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("adaptive", ADAPTIVE)
@pytest.mark.parametrize("case", JOINS)
def test_joins(
    spark: SparkSession, compare: Comparer, c: str, few: str, case: str, adaptive: str, strategy: str
) -> None:
    fires = joins.in_time(strategy, adaptive)
    if strategy == "broadcast" and case in ("right", "double"):
        # A right join that is broadcast makes its table of the cached side; NaN has no statistics.
        fires = False
    if strategy == "shuffled" and case == "self":
        fires = None  # Both sides are one cached table, whose scan is not held back for itself.
    run = compare(JOINS[case], STRATEGIES[strategy], ADAPTIVE[adaptive], fires=fires).on
    # Keys that are everywhere, or NaN, exclude rows below an exchange only.
    if fires and case not in ("string", "double", "self"):
        assert sum(s["row_groups_pruned"] for s in run.scans) > 0, run


def test_report(spark: SparkSession, assert_same_result: Check, t: str) -> None:
    spark.sql(f"CACHE TABLE named OPTIONS ('storageLevel' 'MEMORY_ONLY') AS SELECT * FROM {t}")
    try:
        with joins.settings(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(BATCH)}):
            result = assert_same_result("SELECT * FROM named ORDER BY id LIMIT 3", ordered=True)
    finally:
        spark.sql("UNCACHE TABLE named")
    scan = result.scans[0]
    assert "named" in scan["table_name"]
    assert scan["rows_total"] == tables.ROWS == scan["rows_pruned"] + scan["rows_output"]
    assert scan["row_groups_total"] > 0
    assert scan["bytes_total"] >= scan["bytes_read"] > 0


@pytest.mark.client
@pytest.mark.processes
def test_the_query_that_fills_the_cache(spark: SparkSession, t: str, few: str) -> None:
    # The cache is filled by a task that needs few of its rows: all of them are kept, for other queries.
    queries = (
        "SELECT * FROM {} AS x ORDER BY id LIMIT 10",
        "SELECT /*+ BROADCAST(few) */ x.id FROM {} AS x JOIN few ON x.id = few.j",
        "SELECT min(id), max(id) FROM {} AS x",
    )
    for query in queries:
        with sdf.conf(spark).override(enabled=False):
            expected = sorted(spark.sql(query.format(t)).collect())
        with cached(spark, spark.table(t), "lazy", is_filled=False):
            for _ in range(2):
                assert sorted(spark.sql(query.format("lazy")).collect()) == expected
                counts = spark.sql("SELECT count(*), count(DISTINCT id) FROM lazy").first()
                assert counts == (tables.ROWS, tables.ROWS)


def test_build_side_runs_while_a_cache_is_filled(spark: SparkSession, c: str, t: str) -> None:
    # The plan that is made when the cache is full has the tap that the build side runs with. A stage above it
    # that adaptive execution loses is planned anew, with a filter that nobody makes.
    keys = f"SELECT DISTINCT id AS x FROM {c} WHERE seq < 20"
    query = f"SELECT /*+ BROADCAST(b) */ l.id FROM {{}} AS l JOIN ({keys}) b ON l.id = b.x"
    expected = sorted(spark.sql(query.format(t)).collect())
    for _ in range(3):
        with cached(spark, spark.table(t), "lazy", is_filled=False):
            run = joins.run(spark, query.format("lazy"))
            assert sorted(run.rows) == expected
            assert run.filters, run
            assert all(f["generation"] > 0 for f in run.filters), run


def test_unpersisted(spark: SparkSession, same_twice: Check, t: str) -> None:
    kept = spark.table(t).where("grp < 9").cache()
    kept.count()
    frame = kept.orderBy("id").limit(10)
    first = frame.collect()
    kept.unpersist()
    assert frame.collect() == first
    same_twice(kept.orderBy("id").limit(10), ordered=True)


@pytest.mark.parametrize("vectorized", ["false", "true"])
def test_readers(spark: SparkSession, assert_same_result: Check, c: str, few: str, vectorized: str) -> None:
    reads = {"spark.sql.inMemoryColumnarStorage.enableVectorizedReader": vectorized}
    with joins.settings(spark, reads, joins.SHUFFLED):
        best = f"SELECT id, c_int FROM {c} ORDER BY id LIMIT 9"
        assert_row_groups_pruned(assert_same_result(best, ordered=True))
        # Columns of fixed size are read as batches.
        joined = f"SELECT c.id, c.c_int FROM {c} JOIN few ON c.id = few.j"
        assert_row_groups_pruned(assert_same_result(joined))


CACHED_PLANS = {
    "shuffled": ("SELECT /*+ REPARTITION(3, grp) */ * FROM t", True),
    "groups": ("SELECT id, max(c_int) AS c_int, sum(seq) AS seq FROM t GROUP BY id", True),
    "sum_of_doubles": ("SELECT id, sum(c_double) AS c_int FROM t GROUP BY id", False),
    "limit": ("SELECT * FROM t LIMIT 3900", False),
    "rand": ("SELECT *, rand() AS r FROM t", False),
}


@pytest.mark.parametrize("adaptive", ADAPTIVE)
@pytest.mark.parametrize("case", CACHED_PLANS)
def test_what_was_cached(
    spark: SparkSession, assert_same_result: Check, t: str, case: str, adaptive: str
) -> None:
    # Lost blocks are computed again: a TopK needs the same rows then.
    query, fires = CACHED_PLANS[case]
    with joins.settings(spark, ADAPTIVE[adaptive]), cached(spark, spark.sql(query), "made") as name:
        top = f"SELECT id, c_int FROM {name} ORDER BY id LIMIT 10"
        result = assert_same_result(top, ordered=True, fires=fires)
        if not fires:
            assert_rejected(result, "a lost block of the cache")

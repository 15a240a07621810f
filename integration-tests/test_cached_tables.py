"""Cached data: batches are left out by their statistics, rows below an exchange; a cache is filled whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.storagelevel import StorageLevel

import spark_dynamic_filters as sdf
from support import joins, tables
from support.checks import ORDERS, Check, assert_rejected, assert_row_groups_pruned, orders_of
from support.joins import ADAPTIVE, STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: As many rows as a row group of `t` has, which are next to each other in each column.
BATCH = tables.ROW_GROUP_ROWS


_NUMBERS = itertools.count(1)


@contextmanager
def cached(
    spark: SparkSession, frame: DataFrame, name: str, level: StorageLevel | None = None
) -> Iterator[str]:
    """The name of a view of the rows, which are cached by the time it is there."""
    with joins.settings(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(BATCH)}):
        # Equal plans have one cache.
        distinct = frame.where(f"id >= -{next(_NUMBERS)}")
        kept = distinct.persist(level) if level else distinct.cache()
        try:
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
    "best": "SELECT * FROM c ORDER BY id LIMIT 10",
    "worst": "SELECT * FROM c ORDER BY id DESC LIMIT 10",
    "second_key": "SELECT * FROM c ORDER BY c_int DESC, id LIMIT 10",
    "condition": "SELECT id, c_string FROM c WHERE c_string LIKE '%a%' ORDER BY c_string, id LIMIT 5",
    "groups": "SELECT id, count(*) AS n FROM c GROUP BY id ORDER BY id LIMIT 7",
    "rank": "SELECT * FROM (SELECT id, rank() OVER (ORDER BY id) AS r FROM c) WHERE r <= 5",
    "min_and_max": "SELECT min(id), max(id) FROM c",
    "min_by": "SELECT min_by(c_string, id) FROM c",
}


@pytest.mark.core
@pytest.mark.parametrize("case", TOPKS)
def test_best_rows(assert_same_result: Check, c: str, case: str) -> None:
    result = assert_same_result(TOPKS[case], ordered="ORDER BY" in TOPKS[case] and case != "rank")
    if case != "condition":
        assert_row_groups_pruned(result)


# One for each form of a batch's bounds; `CachedBatchesSuite` has all types.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "kind", ["c_boolean", "c_tinyint", "c_bigint", "c_decimal_long", "c_decimal_big", "c_double", "c_string"]
)
def test_types(same_twice: Check, c: str, few: str, kind: str) -> None:
    for order in orders_of(kind):
        # Here the bound is NaN, which the statistics of batches leave out.
        fires = not (kind in ("c_float", "c_double") and order == "DESC NULLS LAST")
        query = f"SELECT {kind}, id FROM {c} ORDER BY {kind} {order}, id LIMIT 30"
        result = same_twice(query, ordered=True, fires=fires)
        assert any(f["generation"] > 0 for f in result.filters), result.analysis
    keys = (
        f"SELECT /*+ BROADCAST(x) */ c.id FROM {c} JOIN (SELECT DISTINCT {kind} AS x FROM c WHERE id < 20) x"
    )
    result = same_twice(f"{keys} ON c.{kind} = x.x")
    assert any(f["generation"] > 0 for f in result.filters), result.analysis
    if kind not in ("c_boolean", "c_tinyint"):
        assert_row_groups_pruned(result)


def test_binary_has_no_bounds(assert_same_result: Check, c: str) -> None:
    assert_rejected(
        assert_same_result(
            "SELECT c_binary, id FROM c ORDER BY c_binary, id LIMIT 5", ordered=True, fires=False
        ),
        "cached data has no statistics of type binary",
    )


def test_numbers_that_are_none(spark: SparkSession, tmp_path: Path, same_twice: Check) -> None:
    frame = spark.range(0, 20 * BATCH, 1, 2).selectExpr(
        "id",
        # In batches of their own: NaN only, nulls only, infinite, both zeros, and NaN among others.
        f"CASE id DIV {BATCH} WHEN 1 THEN double('NaN') WHEN 3 THEN NULL WHEN 5 THEN double('inf') "
        "WHEN 7 THEN double('-inf') WHEN 9 THEN IF(id % 2 = 0, 0.0D, -0.0D) "
        "WHEN 11 THEN IF(id % 7 = 0, double('NaN'), 11.0D) ELSE id / 10D END AS d",
    )
    with cached(spark, frame, "odd") as name:
        for order in ORDERS:
            same_twice(f"SELECT * FROM {name} ORDER BY d {order}, id LIMIT 60", ordered=True)
        same_twice(f"SELECT min(d), max(d) FROM {name}")
        same_twice(f"SELECT max(d) FROM {name} WHERE NOT isnan(d)")
        for key in ("nan", "-0.0", "inf", "-inf", "11.0"):
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
    "two_keys": "SELECT c.id FROM c JOIN few ON c.id = few.j AND c.c_string = few.s",
    "condition": "SELECT c.id FROM c JOIN few ON c.id = few.j WHERE c.grp < 8",
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
        fires = False
    if strategy == "shuffled" and case == "self":
        fires = None  # Both sides are one cached table, whose scan is not held back for itself.
    run = compare(JOINS[case], STRATEGIES[strategy], ADAPTIVE[adaptive], fires=fires).on
    # Without adaptive execution, a shuffled join has its filter too late, or in time. A right
    # join that is broadcast makes its table of the cached side.
    exempt = case == "self" or (case, strategy) == ("right", "broadcast")
    if not exempt and (adaptive, strategy) != ("off", "shuffled"):
        assert any(f["generation"] > 0 for f in run.filters), run
        # Keys that are everywhere, or NaN, which statistics leave out, exclude rows below an exchange only.
        if strategy == "shuffled" or case not in ("string", "double"):
            assert sum(s["rows_pruned"] for s in run.scans) > 0, run
        assert sum(s["row_groups_pruned"] for s in run.scans) > 0 or case in ("string", "double"), run


def test_rows_below_an_exchange(spark: SparkSession, tmp_path: Path, compare: Comparer, c: str) -> None:
    # One row of each batch: no batch is left out, most rows are.
    each = [r["id"] for r in tables.all_types().select(["id", "seq"]).to_pylist() if r["seq"] % BATCH == 7]
    joins.view(spark, tmp_path / "each", "one_each", pa.table({"j": each}))
    run = compare(f"SELECT c.id FROM {c} JOIN one_each ON c.id = one_each.j", joins.SHUFFLED).on
    assert any(s["rows_pruned"] > tables.ROWS * 0.9 and s["row_groups_pruned"] == 0 for s in run.scans), run


def test_filter_of_ones_own(spark: SparkSession, assert_same_result: Check, c: str) -> None:
    with sdf.create_filter(spark, "mine", "bigint") as f:
        f.update(sdf.isin([5, 1005, 77777]))
        assert_row_groups_pruned(
            assert_same_result(spark.table(c).where(f.matches("id")).select("id", "grp"))
        )
        assert_row_groups_pruned(
            assert_same_result(spark.table(c).where(f.prunes("id")).where("id % 1000 = 5"))
        )
        f.update(sdf.nothing())
        assert_same_result(spark.table(c).where(f.matches("id")))


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


@pytest.mark.processes
@pytest.mark.parametrize("level", ["MEMORY_ONLY", "MEMORY_AND_DISK", "DISK_ONLY", "MEMORY_AND_DISK_2"])
def test_storage_levels(spark: SparkSession, assert_same_result: Check, t: str, level: str) -> None:
    with cached(spark, spark.table(t), "leveled", getattr(StorageLevel, level)) as name:
        query = f"SELECT * FROM {name} ORDER BY id LIMIT 10"
        assert_row_groups_pruned(assert_same_result(query, ordered=True))


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
        with joins.settings(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(BATCH)}):
            lazy = spark.table(t).where("grp >= 0").cache()
            try:
                lazy.createOrReplaceTempView("lazy")
                for _ in range(2):
                    assert sorted(spark.sql(query.format("lazy")).collect()) == expected
                    counts = spark.sql("SELECT count(*), count(DISTINCT id) FROM lazy").first()
                    assert counts == (tables.ROWS, tables.ROWS)
            finally:
                lazy.unpersist()


def test_build_side_runs_while_a_cache_is_filled(spark: SparkSession, c: str, t: str) -> None:
    # The plan that is made when the cache is full has the tap that the build side runs with. A stage above it
    # that adaptive execution loses is planned anew, with a filter that nobody makes.
    keys = f"SELECT DISTINCT id AS x FROM {c} WHERE seq < 20"
    query = f"SELECT /*+ BROADCAST(b) */ l.id FROM {{}} AS l JOIN ({keys}) b ON l.id = b.x"
    expected = sorted(spark.sql(query.format(t)).collect())
    with joins.settings(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(BATCH)}):
        for _ in range(3):
            lazy = spark.table(t).where(f"id >= -{next(_NUMBERS)}").cache()
            try:
                lazy.createOrReplaceTempView("lazy")
                run = joins.run(spark, query.format("lazy"))
                assert sorted(run.rows) == expected
                assert run.filters, run
                assert all(f["generation"] > 0 for f in run.filters), run
            finally:
                lazy.unpersist()


def test_unpersisted(spark: SparkSession, same_twice: Check, t: str) -> None:
    kept = spark.table(t).where("grp < 9").cache()
    kept.count()
    frame = kept.orderBy("id").limit(10)
    first = frame.collect()
    kept.unpersist()
    assert frame.collect() == first
    same_twice(kept.orderBy("id").limit(10), ordered=True)


@pytest.mark.parametrize("rows", ["rows", "batches"])
def test_readers(spark: SparkSession, assert_same_result: Check, c: str, few: str, rows: str) -> None:
    reads = {"spark.sql.inMemoryColumnarStorage.enableVectorizedReader": str(rows == "batches").lower()}
    with joins.settings(spark, reads, joins.SHUFFLED):
        assert_row_groups_pruned(
            assert_same_result(f"SELECT id, c_int FROM {c} ORDER BY id LIMIT 9", ordered=True)
        )
        # Columns of fixed size are read as batches.
        assert_row_groups_pruned(
            assert_same_result(f"SELECT c.id, c.c_int FROM {c} JOIN few ON c.id = few.j")
        )


CACHED_PLANS = {
    "shuffled": ("SELECT /*+ REPARTITION(3, grp) */ * FROM t", True),
    "join": (
        "SELECT /*+ MERGE(x) */ t.* FROM t JOIN (SELECT DISTINCT grp AS g FROM t) x ON t.grp = x.g",
        True,
    ),
    "groups": ("SELECT id, max(c_int) AS c_int, sum(seq) AS seq FROM t GROUP BY id", True),
    "sum_of_doubles": ("SELECT id, sum(c_double) AS c_int FROM t GROUP BY id", False),
    "limit": ("SELECT * FROM t LIMIT 3900", False),
    "sample": ("SELECT * FROM t TABLESAMPLE (70 PERCENT) REPEATABLE (3)", False),
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("adaptive", ADAPTIVE)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_joins_of_what_was_cached(
    spark: SparkSession, compare: Comparer, few: str, t: str, adaptive: str, strategy: str
) -> None:
    for case in ("shuffled", "join", "groups", "limit"):
        # Rows are dropped below an exchange, which groups by the same key do not need. Elsewhere whole
        # batches are left out, if the order in which rows were shuffled allows it.
        exchanged = strategy == "shuffled" and case != "groups"
        fires = joins.in_time(strategy, adaptive) if exchanged else None
        with (
            joins.settings(spark, ADAPTIVE[adaptive], STRATEGIES[strategy]),
            cached(spark, spark.sql(CACHED_PLANS[case][0]), "made") as name,
        ):
            compare(f"SELECT m.id FROM {name} m JOIN few ON m.id = few.j", fires=fires)
            right = f"SELECT few.s FROM {name} m RIGHT JOIN few ON m.id = few.j"
            # A broadcast one is of the cached side.
            compare(right, fires=False if strategy == "broadcast" else fires)
            few_of_it = f"(SELECT id FROM {name} WHERE c_int % 9 = 2)"
            # Both sides are one cached table, whose scan is not held back for itself.
            compare(f"SELECT m.id FROM {name} m JOIN {few_of_it} o ON m.id = o.id", fires=None)

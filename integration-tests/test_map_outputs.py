"""What a map task hands on is fixed: when it is computed again, the answer is the same and no job is aborted.

Files of a shuffle are lost after some of its reducers have ended and before the others have begun. Then map
tasks run again, and may know more than the first time: filters that came late, bounds that have moved, what
was measured of filters.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.applications import value
from support.map_outputs import NO_FULL_RETRY, SLOW, check

# Each is an application of its own, which loses its files once. One of each kind runs always, on older Sparks
# the one that once lost rows there.
pytestmark = pytest.mark.timeout(240)


def _join(exchange: str, dim: str, each: int = 31) -> str:
    slow = SLOW.format(id="b.id", each=each)
    return f"""
query = \"\"\"SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {slow}
FROM (SELECT /*+ {exchange} */ * FROM big) b JOIN ({dim}) d ON b.k = d.j\"\"\"
"""


# Not as a condition: Spark would infer it for the other side, too.
_LATE = "SELECT slow(j) AS j FROM dim WHERE j BETWEEN 1 AND 40"
_WAITS_SHORTLY = 'spark.conf.set("spark.dynamicFilters.join.waitTimeout", "0s")\n'


@pytest.mark.parametrize(
    ("exchange", "full_retry"),
    [
        pytest.param("REPARTITION(8)", False, marks=[pytest.mark.core, pytest.mark.exhaustive]),
        pytest.param("REPARTITION(8, v)", True, marks=pytest.mark.exhaustive),
        pytest.param("REPARTITION(8)", True, marks=pytest.mark.large),
        pytest.param("REPARTITION(8, v)", False, marks=pytest.mark.large),
        pytest.param("REBALANCE(8)", True, marks=pytest.mark.large),
        pytest.param("REBALANCE(8)", False, marks=pytest.mark.large),
    ],
)
def test_filter_that_came_after_the_first_attempt(tmp_path: Path, exchange: str, full_retry: bool) -> None:
    code = _join(exchange, _LATE) + _WAITS_SHORTLY + "compare(query, reducers=8)"
    check(code, tmp_path, {} if full_retry else NO_FULL_RETRY)


@pytest.mark.exhaustive
def test_filter_of_a_join_below_the_exchange_beside_a_late_one(tmp_path: Path) -> None:
    # Rows are tested by the nearer join's filter as it comes, by the other one as the first attempt was.
    near = """(SELECT /*+ REPARTITION(8), BROADCAST(n) */ big.*
    FROM big JOIN (SELECT j FROM dim WHERE g < 5) n ON big.k = n.j)"""
    query = _join("", _LATE).replace("(SELECT /*+  */ * FROM big)", near)
    assert near in query
    check(query + _WAITS_SHORTLY + "compare(query, reducers=8)", tmp_path, NO_FULL_RETRY, pruned=True)


@pytest.mark.parametrize(
    "blocks",
    [pytest.param(False, marks=pytest.mark.large), pytest.param(True, marks=pytest.mark.exhaustive)],
)
def test_cached_data_and_a_late_filter(tmp_path: Path, blocks: bool) -> None:
    # In one of the cases cached blocks are lost too. Map tasks compute them again.
    cached = """
from pyspark import StorageLevel
big = spark.table("big").persist(StorageLevel.DISK_ONLY)
big.count()
big.createOrReplaceTempView("big")
def unlink():
    for block in list(local.rglob("rdd_*")):
        block.unlink()
"""
    code = cached + _join("REPARTITION(8)", _LATE) + _WAITS_SHORTLY
    code += "compare(query, reducers=8, tasks=2" + (", before=unlink)" if blocks else ")")
    settings = {"spark.sql.inMemoryColumnarStorage.batchSize": "500"} | NO_FULL_RETRY
    assert "cached data" in value(check(code, tmp_path, settings), "TABLES")


_MOST = "SELECT j FROM dim WHERE g < 7"
_FEW = "SELECT j FROM dim WHERE g = 7"

#: How files are read: in batches, or by the vectorized reader row by row, as tables of many columns are.
_READERS = {"batches": "", "rows": 'spark.conf.set("spark.sql.codegen.maxFields", "2")\n'}


@pytest.mark.parametrize(
    ("exchange", "reader"),
    [
        pytest.param("REPARTITION(8, v)", "batches", marks=pytest.mark.exhaustive),
        pytest.param("REPARTITION(8)", "rows", marks=pytest.mark.exhaustive),
        pytest.param("REPARTITION(8)", "batches", marks=pytest.mark.large),
        pytest.param("REPARTITION(8, v)", "rows", marks=pytest.mark.large),
    ],
)
def test_filter_in_time_that_passes_most_rows(tmp_path: Path, exchange: str, reader: str) -> None:
    # More than selectivity.giveUp: whether late materialization pays is measured, and known in the next
    # attempt.
    code = _READERS[reader] + _join(exchange, _MOST, each=131) + "compare(query, reducers=8, tasks=6)"
    check(code, tmp_path, NO_FULL_RETRY if exchange == "REPARTITION(8)" else {})


@pytest.mark.large
def test_filter_in_time_that_passes_few_rows(tmp_path: Path) -> None:
    check(_join("REPARTITION(8)", _FEW) + "compare(query, reducers=8)", tmp_path, {}, pruned=True)


@pytest.mark.large
def test_shuffled_join(tmp_path: Path) -> None:
    code = f"""
query = \"\"\"SELECT /*+ MERGE(d) */ b.id, b.k, {SLOW.format(id="b.id", each=7)}
FROM big b JOIN ({_LATE}) d ON b.k = d.j\"\"\"
{_WAITS_SHORTLY}
compare(query, reducers=8)
"""
    check(code, tmp_path, {})


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("k", marks=pytest.mark.exhaustive),
        pytest.param("k DESC", marks=pytest.mark.large),
    ],
)
def test_topk_over_groups(tmp_path: Path, order: str) -> None:
    # What a map task drops depends on the bound, and that on what other tasks have read.
    slow = "max(CASE WHEN id % 53 = 0 THEN s END)"
    code = f"""
query = \"\"\"SELECT k, count(*) AS n, sum(v) AS total, {slow} AS m
FROM big GROUP BY k ORDER BY {order} LIMIT 50\"\"\"
compare(query, reducers=400, completed=20)
"""
    check(code, tmp_path, {"spark.sql.shuffle.partitions": "400"}, rows=400_000)


@pytest.mark.large
def test_least_and_greatest_by_partition_of_an_exchange(tmp_path: Path) -> None:
    slow = SLOW.format(id="id", each=31).removesuffix(" AS slept")
    code = f"""
query = \"\"\"SELECT min(k), max(k), count(slept) FROM
(SELECT k, {slow} AS slept FROM (SELECT /*+ REPARTITION(8) */ * FROM big))\"\"\"
compare(query, reducers=8)
"""
    check(code, tmp_path, {})


@pytest.mark.parametrize(
    "cached",
    [
        pytest.param(False, marks=pytest.mark.large),
        # Blocks that a task of a result stage has made are lost, and made anew by map tasks.
        pytest.param(True, marks=pytest.mark.exhaustive),
    ],
)
def test_users_filter_is_tightened_between_two_attempts(tmp_path: Path, cached: bool) -> None:
    # Rows that do not match may come or not, each once at most; those that match come once.
    code = f"""
from pyspark import StorageLevel
f = sdf.create_filter(spark, "mine", "int")
f.update(sdf.between(-200, 200))
pruned = spark.table("big").where(f.prunes("k"))
if {cached}:
    pruned.persist(StorageLevel.DISK_ONLY).collect()
def query():
    sleep = "CASE WHEN id % 31 = 0 THEN java_method('java.lang.Thread', 'sleep', 5L) END"
    return pruned.repartition(8).selectExpr("id", "k", sleep)
def tighten():
    f.update(sdf.between(1, 40))
    for block in list(local.rglob("rdd_*")):
        block.unlink()
with lost_map(spark, local, 8, 2, tasks=6, before=tighten) as lost:
    try:
        rows, error = query().collect(), ""
    except Exception as e:
        rows, error = [], " ".join(str(e).split())[:700]
ids = Counter(r[0] for r in rows)
print("ERROR", error)
print("EXTRA", sum(1 for n in ids.values() if n > 1), "come twice")
wanted = set(r[0] for r in spark.sql("SELECT id FROM big WHERE k BETWEEN 1 AND 40").collect())
print("MISSING", len(wanted - set(ids)))
print("LOST", len(lost))
print("FETCHES", counters(spark)["seenFetchFailures"])
"""
    assert value(check(code, tmp_path, {}), "LOST") == "6"

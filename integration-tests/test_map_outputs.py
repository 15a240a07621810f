"""What a map task hands on is fixed: when it is computed again, the answer is the same and no job is aborted.

Files of a shuffle are lost after some of its reducers have ended and before the others have begun. Then map
tasks run again, and may know more than the first time: filters that came late, bounds that have moved, what
was measured of filters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.applications import value
from support.map_outputs import NO_FULL_RETRY, SLOW, assert_same, check

_WAITS_SHORTLY = {"spark.dynamicFilters.join.waitTimeout": "0s"}


@dataclass(frozen=True)
class Case:
    """Code that calls `compare`, under these Spark settings.

    Attributes:
        pruned: whether a filter has to skip rows, too.
    """

    code: str
    settings: dict[str, str] = field(default_factory=dict)
    pruned: bool = False


def _join(exchange: str, dim: str, each: int = 31, compare: str = "") -> str:
    query = f"""SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {SLOW.format(id="b.id", each=each)}
FROM (SELECT /*+ {exchange} */ * FROM big) b JOIN ({dim}) d ON b.k = d.j"""
    return f"compare({query!r}, reducers=8{compare})"


# Not as a condition: Spark would infer it for the other side, too.
_LATE = "SELECT slow(j) AS j FROM dim WHERE j BETWEEN 1 AND 40"
# More than selectivity.giveUp: whether late materialization pays is measured, and known in the next attempt.
_MOST = "SELECT j FROM dim WHERE g < 7"
# Rows are tested by the nearer join's filter as it comes, by the other one as the first attempt was.
_NEAR = """(SELECT /*+ REPARTITION(8), BROADCAST(n) */ big.*
FROM big JOIN (SELECT j FROM dim WHERE g < 5) n ON big.k = n.j)"""
# Cached blocks are lost too, and map tasks compute them again.
_CACHED = """
from pyspark import StorageLevel
cached = spark.table("big").persist(StorageLevel.DISK_ONLY)
cached.count()
cached.createOrReplaceTempView("big")
def unlink():
    for block in list(local.rglob("rdd_*")):
        block.unlink()
"""
# What a map task drops depends on the bound, and that on what other tasks have read.
_TOPK = """
spark.range(0, 400_000, 1, 6).selectExpr(*columns).write.parquet(str(folder / "many"))
spark.read.parquet(str(folder / "many")).createOrReplaceTempView("big")
compare('''SELECT k, count(*) AS n, sum(v) AS total, max(CASE WHEN id % 53 = 0 THEN s END) AS m
FROM big GROUP BY k ORDER BY k LIMIT 50''', reducers=400, completed=20)
"""
# Rows that match come once. Other rows come once or not at all. The lost blocks were written by a task of a
# result stage; map tasks write them again.
_USERS = """
from pyspark import StorageLevel
f = sdf.create_filter(spark, "mine", "int")
f.update(sdf.between(-200, 200))
pruned = spark.table("big").where(f.prunes("k")).persist(StorageLevel.DISK_ONLY)
pruned.collect()
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
print("FETCHES", fetches())
"""

#: Rows of a round-robin exchange go by their position: the case that once lost rows on older Sparks.
FIRST = {"a late filter": Case(_join("REPARTITION(8)", _LATE), NO_FULL_RETRY | _WAITS_SHORTLY)}
OTHERS = {
    "a late filter, by a key": Case(_join("REPARTITION(8, v)", _LATE), _WAITS_SHORTLY),
    "a late filter beside one of a join below the exchange": Case(
        _join("", _LATE).replace("(SELECT /*+  */ * FROM big)", _NEAR.replace("\n", " ")),
        NO_FULL_RETRY | _WAITS_SHORTLY,
        pruned=True,
    ),
    "cached data": Case(
        _CACHED + _join("REPARTITION(8)", _LATE, compare=", tasks=2, before=unlink"),
        NO_FULL_RETRY | _WAITS_SHORTLY | {"spark.sql.inMemoryColumnarStorage.batchSize": "500"},
    ),
    "a filter in time": Case(_join("REPARTITION(8, v)", _MOST, each=131, compare=", tasks=6")),
    # The vectorized reader row by row, as tables of many columns are read.
    "a filter in time, by rows": Case(
        _join("REPARTITION(8)", _MOST, each=131, compare=", tasks=6"),
        NO_FULL_RETRY | {"spark.sql.codegen.maxFields": "2"},
    ),
    "groups": Case(_TOPK, {"spark.sql.shuffle.partitions": "400"}),
    "a user's filter": Case(_USERS),
}

_RUN = """
print("CASE", {name!r})
seen = counters(spark)["seenFetchFailures"]
spark.catalog.clearCache()
spark.read.parquet(str(folder / "big")).createOrReplaceTempView("big")
for key, of in {settings!r}.items():
    spark.conf.set(key, of)
{code}
for key in {settings!r}:
    spark.conf.unset(key)
"""


@pytest.mark.timeout(300)
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "cases",
    [pytest.param(FIRST, marks=pytest.mark.core, id="first"), pytest.param(OTHERS, id="others")],
)
def test_lost_map_outputs(tmp_path: Path, cases: dict[str, Case]) -> None:
    code = "".join(_RUN.format(name=n, settings=c.settings, code=c.code) for n, c in cases.items())
    out = check(code, tmp_path, {}, seconds=280)
    for found in re.split("^CASE ", out, flags=re.MULTILINE)[1:]:
        name = found.partition("\n")[0]
        assert_same(found, cases[name].pruned)
        if name == "cached data":
            assert "cached data" in value(found, "TABLES")

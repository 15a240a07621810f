"""Cached data and lost map outputs: what a map task hands on is the same when computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.applications import run_application, value

_LOST = """
import time
from collections import Counter
from support.losses import lost_map
local = folder / "local"
spark = start("local[2, 4]", settings={
    "spark.local.dir": str(local), "spark.sql.shuffle.partitions": "8", "spark.task.maxFailures": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.dynamicFilters.join.waitTimeout": "0s",
    "spark.sql.inMemoryColumnarStorage.batchSize": "500",
})
from pyspark import StorageLevel
big = spark.range(0, 40000, 1, 6).selectExpr("id", "id DIV 80 AS k", "id % 11 AS v", "repeat('x', 20) AS s")
big = big.persist(StorageLevel.DISK_ONLY)
big.count()
big.createOrReplaceTempView("big")
def slow(j):
    if j == 1:
        time.sleep(2)
    return j
spark.udf.register("slow", slow, "bigint")
spark.range(-500, 500, 1, 1).selectExpr("id AS j").localCheckpoint().createOrReplaceTempView("dim")
slept = "CASE WHEN b.id % 31 = 0 THEN java_method('java.lang.Thread', 'sleep', 8L) END AS slept"
query = f\"\"\"SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {slept}
FROM (SELECT /*+ REPARTITION(8) */ * FROM big) b
JOIN (SELECT slow(j) AS j FROM dim WHERE j BETWEEN 1 AND 40) d ON b.k = d.j\"\"\"
def rows_of():
    return Counter(map(str, spark.sql(query).collect()))
with sdf.conf(spark).override(enabled=False):
    expected = rows_of()
def unlink():
    if BLOCKS:
        for block in list(local.rglob("rdd_*")):
            block.unlink()
with lost_map(spark, local, 8, 2, tasks=2, before=unlink) as lost:
    try:
        actual, error = rows_of(), ""
    except Exception as e:
        actual, error = Counter(), " ".join(str(e).split())[:700]
print("ERROR", error)
print("MISSING", sum((expected - actual).values()))
print("EXTRA", sum((actual - expected).values()))
print("LOST", len(lost))
print("FETCHES", counters(spark)["seenFetchFailures"])
print("SCANS", [(s.table_name, s.rows_pruned) for s in sdf.scans(spark).collect()])
spark.stop()
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "blocks",
    [pytest.param(False, marks=pytest.mark.large), pytest.param(True, marks=pytest.mark.exhaustive)],
)
def test_lost_map_outputs(tmp_path: Path, blocks: bool) -> None:
    # The filter comes after the first attempt: the second one must not use it. Blocks may be lost, too.
    out = run_application(_LOST.replace("BLOCKS", str(blocks)), tmp_path, seconds=200)
    assert int(value(out, "LOST")) > 0, out
    assert int(value(out, "FETCHES")) > 0, out
    assert value(out, "ERROR") == "", out
    assert (value(out, "MISSING"), value(out, "EXTRA")) == ("0", "0"), out
    assert "cached data" in value(out, "SCANS"), out

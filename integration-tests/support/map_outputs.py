"""An application that loses files of map tasks while it runs a query."""

from __future__ import annotations

import json
from pathlib import Path

from .applications import run_application, value

#: Without it Spark runs the whole stage again if checksums differ, which hides what is tested here.
NO_FULL_RETRY = {"spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false"}

#: Every 31st row of a reducer takes a while, so that some have ended when others have yet to begin. It is a
#: part of the select list that filters do not pass, so it holds up the reducers only.
SLOW = "CASE WHEN {id} % {each} = 0 THEN java_method('java.lang.Thread', 'sleep', 8L) END AS slept"

# Defines tables `big` and `dim`, and `compare(query, reducers)`, which prints what was found. Files that were
# missed count from `seen` on. Arguments after the folder: settings as JSON, and the rows of `big`.
_CODE = """
import time
from collections import Counter
from support.losses import lost_map
local = folder / "local"
rows = int(sys.argv[3])
spark = start("local[2, 4]", settings={
    "spark.local.dir": str(local), "spark.sql.shuffle.partitions": "8", "spark.task.maxFailures": "4",
    "spark.sql.files.openCostInBytes": "1m", "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    **json.loads(sys.argv[2]),
})
columns = ("id", "hash(id) % 500 AS k", "id % 11 AS v", "repeat('x', 20) AS s")
# Six map tasks: eight reducers are told from them.
big = spark.range(0, rows, 1, 6).selectExpr(*columns)
# Keys are in no order, so it is rows that are dropped, not row groups.
big.write.parquet(str(folder / "big"))
# A condition on g says nothing of j: Spark cannot infer one on the other side of a join.
dim = spark.range(-500, 500, 1, 1).selectExpr("id AS j", "pmod(hash(id), 10) AS g")
dim.write.parquet(str(folder / "dim"))
for name in ("big", "dim"):
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
def slow(j):
    if j == 1:
        time.sleep(2)
    return j
spark.udf.register("slow", slow, "bigint")
seen = 0
def fetches():
    return counters(spark)["seenFetchFailures"] - seen
def rows_of(query):
    return Counter(map(str, (spark.sql(query) if isinstance(query, str) else query()).collect()))
def compare(query, reducers, completed=2, tasks=1, before=lambda: None):
    with sdf.conf(spark).override(enabled=False):
        expected = rows_of(query.replace(" 8L)", " 0L)") if isinstance(query, str) else query)
    # On a busy machine all reducers may have read before the files are gone: then once more.
    for _ in range(3):
        with lost_map(spark, local, reducers, completed, tasks, before) as lost:
            try:
                actual, error = rows_of(query), ""
            except Exception as e:
                actual, error = Counter(), " ".join(str(e).split())[:700]
        if error or actual != expected or fetches():
            break
    print("ERROR", error)
    print("MISSING", sum((expected - actual).values()))
    print("EXTRA", sum((actual - expected).values()), list((actual - expected).items())[:3])
    print("LOST", len(lost))
    print("FETCHES", fetches())
    scans = sdf.scans(spark).collect()
    newest = max((s.query_id for s in scans), default=0)
    print("PRUNED", sum(s.rows_pruned for s in scans if s.query_id == newest))
    print("TABLES", {s.table_name for s in scans if s.query_id == newest})
    return actual
"""


def check(
    code: str,
    folder: Path,
    settings: dict[str, str],
    *arguments: str,
    rows: int = 40_000,
    pruned: bool = False,
    seconds: float = 200,
    own_process: bool = False,
) -> str:
    """Runs code that finds tables `big` and `dim` and calls `compare(query, reducers)`.

    Asserts that files were lost and missed, and that the query has the rows it has without filters.

    Args:
        arguments: from `sys.argv[4]` on.
        rows: of `big`.
        pruned: whether a filter has to skip rows, too.

    Returns:
        What it printed.
    """
    given = (json.dumps(settings), str(rows), *arguments)
    whole = f"{_CODE}{code}\nspark.stop()\n"
    out = run_application(whole, folder, *given, seconds=seconds, own_process=own_process)
    assert_same(out, pruned)
    return out


def assert_same(out: str, pruned: bool = False) -> None:
    """Asserts what `check` does, of what was printed."""
    assert int(value(out, "LOST")) > 0, f"no files were lost:\n{out}"
    assert int(value(out, "FETCHES")) > 0, f"nobody missed the files:\n{out}"
    assert value(out, "ERROR") == "", out
    assert value(out, "MISSING") == "0", out
    assert value(out, "EXTRA").startswith("0 "), out
    if pruned:
        assert int(value(out, "PRUNED")) > 0, f"no filter skipped rows:\n{out}"

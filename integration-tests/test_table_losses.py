"""Delta and Iceberg tables and lost map outputs: what a map task hands on is the same when computed again.

Run with `TABLE_FORMAT=delta` or `TABLE_FORMAT=iceberg`, on a Spark line that the format has a package for.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import packages
from support.applications import run_application, value
from support.map_outputs import CODE

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

#: Some rows are deleted in files that stay: by deletion vectors, by position deletes.
_TABLES = {
    "delta": """
big.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(folder / "delta"))
spark.sql(f"DELETE FROM delta.`{folder}/delta` WHERE id % 10 = 3")
spark.read.format("delta").load(str(folder / "delta")).createOrReplaceTempView("big")
""",
    "iceberg": """
(big.writeTo("ice.db.big").using("iceberg").tableProperty("format-version", "2")
 .tableProperty("write.delete.mode", "merge-on-read").tableProperty("read.split.open-file-cost", "4096")
 .tableProperty("read.split.target-size", "40000").create())
spark.sql("DELETE FROM ice.db.big WHERE id % 10 = 3")
spark.table("ice.db.big").createOrReplaceTempView("big")
""",
}

# In reducers, behind a numbering that no filter passes: some have ended when others have yet to begin.
_SLOW = """
slow = "CASE WHEN {} % 31 = 0 THEN java_method('java.lang.Thread', 'sleep', 8L) END AS slept"
"""

#: Rows of a round-robin exchange go by their position; row numbers count what was read before.
_QUERIES = {
    "dealt in turn": "SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {slow_id} "
    "FROM (SELECT /*+ REPARTITION(8) */ * FROM big) b JOIN (SELECT j FROM dim WHERE g = 3) d ON b.k = d.j",
    "numbered": "SELECT c, m, {slow_m} FROM (SELECT /*+ BROADCAST(d) */ n, count(*) AS c, max(id) AS m "
    "FROM (SELECT monotonically_increasing_id() AS n, id, k FROM big) b "
    "JOIN (SELECT j FROM dim WHERE g = 3) d ON b.k = d.j GROUP BY n)",
}


@pytest.mark.parametrize("query", _QUERIES)
@pytest.mark.parametrize("table", [pytest.param(t, marks=pytest.mark.table_format(t)) for t in _TABLES])
def test_lost_map_outputs(tmp_path: Path, table: str, query: str) -> None:
    # Else Spark computes all of a stage anew where checksums differ, and hides what is asked here.
    settings = {"spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false"}
    package = packages.ALL[table]
    assert package.coordinates is not None
    settings |= package.config(tmp_path)
    text = _QUERIES[query]
    run = f"""
query = {text!r}.format(slow_id=slow.format("b.id"), slow_m=slow.format("m"))
compare(query, reducers=8)
spark.stop()
"""
    out = run_application(
        CODE + _TABLES[table] + _SLOW + run,
        tmp_path,
        json.dumps(settings),
        "40000",
        seconds=250,
        own_process=True,
    )
    assert int(value(out, "LOST")) > 0, out
    assert int(value(out, "FETCHES")) > 0, out
    assert value(out, "ERROR") == "", out
    assert value(out, "MISSING") == "0", out
    assert value(out, "EXTRA").startswith("0 "), out
    assert int(value(out, "PRUNED")) > 0, out

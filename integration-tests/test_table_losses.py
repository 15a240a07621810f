"""Delta and Iceberg tables and lost map outputs: what a map task hands on is the same when computed again.

Run with `TABLE_FORMAT=delta` or `TABLE_FORMAT=iceberg`, on a Spark line that the format has a package for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import packages
from support.map_outputs import NO_FULL_RETRY, SLOW, check

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

#: Rows of a round-robin exchange go by their position.
_QUERY = (
    "SELECT /*+ BROADCAST(d) */ b.id, b.k, b.v, {slow_id} "
    "FROM (SELECT /*+ REPARTITION(8) */ * FROM big) b JOIN (SELECT j FROM dim WHERE g = 3) d ON b.k = d.j"
)


@pytest.mark.parametrize("table", [pytest.param(t, marks=pytest.mark.table_format(t)) for t in _TABLES])
def test_lost_map_outputs(tmp_path: Path, table: str) -> None:
    package = packages.ALL[table]
    assert package.coordinates is not None
    query = _QUERY.format(slow_id=SLOW.format(id="b.id", each=31))
    code = f"{_TABLES[table]}compare({query!r}, reducers=8)"
    settings = NO_FULL_RETRY | package.config(tmp_path)
    check(code, tmp_path, settings, pruned=True, seconds=250, own_process=True)

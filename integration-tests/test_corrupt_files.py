"""Files with a row group that cannot be read. Where Spark is told to ignore that, it returns the rows before
it: which those are must not depend on what filters skip. Where it is not told so, the query fails: see
`ScanFaultsSuite`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins

GROUPS = 5
ROWS = 2_000
BAD = 2

_LAST = "(SELECT * FROM wanted WHERE n >= 1000)"
_FIRST = "(SELECT * FROM wanted WHERE n < 1000)"
QUERIES = {
    # Best rows come last, behind the bad row group.
    "topk": "SELECT k, payload FROM torn ORDER BY k DESC LIMIT 5",
    # All in the last row group; all in the first one.
    "broadcast": f"SELECT /*+ BROADCAST(b) */ k, payload FROM torn JOIN {_LAST} b ON k = j",
    "shuffled": f"SELECT /*+ MERGE(b) */ k, payload FROM torn JOIN {_LAST} b ON k = j",
    "before": f"SELECT /*+ BROADCAST(b) */ k, payload FROM torn JOIN {_FIRST} b ON k = j",
    "max": "SELECT max(k), max(payload) FROM torn",
    "user": "SELECT k, payload FROM torn WHERE dynamic_filter('torn_keys', k)",
}


@pytest.fixture(params=["k", "payload"])
def torn(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """One file; in the middle row group the bytes of one column are no Parquet."""
    file = tmp_path / "torn.parquet"
    table = pa.table(
        {
            "k": pa.array(range(GROUPS * ROWS), pa.int64()),
            "payload": [format(i * 7919, "x").rjust(60, "x") for i in range(GROUPS * ROWS)],
        }
    )
    pq.write_table(table, file, row_group_size=ROWS, use_dictionary=False, compression="zstd")
    chunk = pq.read_metadata(file).row_group(BAD).column(0 if request.param == "k" else 1)
    content = bytearray(file.read_bytes())
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    content[start : start + size] = b"\xff" * size
    file.write_bytes(content)
    joins.view(spark, tmp_path, "wanted", joins.build([*range(1_000), *range(8_500, 8_520)]))
    return file


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("how", ["option", "setting"])
def test_ignored(spark: SparkSession, torn: Path, query: str, how: str) -> None:
    reader = spark.read.option("ignoreCorruptFiles", "true") if how == "option" else spark.read
    reader.parquet(str(torn)).createOrReplaceTempView("torn")
    setting = {"spark.sql.files.ignoreCorruptFiles": "true"} if how == "setting" else {}
    with (
        sdf.create_filter(spark, "torn_keys", "bigint") as made,
        joins.settings(spark, joins.FOREVER, joins.FEW_TASKS, setting),
    ):
        made.update(sdf.between(3_990, 9_000))
        run = joins.Comparer(spark)(QUERIES[query], fires=False).on
        if query == "user":
            return
        reasons = [f["reason"] for f in run.report.filters if f["state"] == "disabled"] if run.report else []
        assert any("corrupt files are ignored" in (r or "") for r in reasons), str(run)


@pytest.mark.only("classic", "local-cluster")
@pytest.mark.parametrize("query", ["topk", "broadcast", "max"])
def test_ignored_since_the_query_was_planned(spark: SparkSession, torn: Path, query: str) -> None:
    spark.read.parquet(str(torn)).createOrReplaceTempView("torn")
    found = {}
    for enabled in (False, True):
        with joins.settings(spark, joins.FOREVER, joins.FEW_TASKS), sdf.conf(spark).override(enabled=enabled):
            df = spark.sql(QUERIES[query])
            assert ("DynamicFilter" in df._jdf.queryExecution().executedPlan().toString()) == enabled
            with joins.settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
                found[enabled] = sorted(df.collect())
    assert found[True] == found[False]


@pytest.mark.only("classic", "local-cluster")
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("query", ["user", "broadcast"])
def test_orc_ignored_since_the_query_was_planned(
    spark: SparkSession, tmp_path: Path, query: str, adaptive: str
) -> None:
    """By predicates that stock Spark does not have ORC's reader may leave out the stripe that is torn."""
    rows, last = 60_000, 59_990
    folder = tmp_path / "torn_orc"
    text = spark.range(0, rows, 1, 1).selectExpr("id AS k", "sha2(string(id), 256) AS payload")
    text.write.option("orc.stripe.size", "262144").orc(str(folder))
    (file,) = folder.glob("*.orc")
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 3_000] = b"\xff" * 3_000
    file.write_bytes(content)
    for checksum in folder.glob(".*.crc"):
        checksum.unlink()
    spark.read.orc(str(folder)).createOrReplaceTempView("torn_orc")
    joins.view(spark, tmp_path, "last", joins.build(range(last, rows)))
    queries = {
        "user": "SELECT k, payload FROM torn_orc WHERE dynamic_filter('torn_keys', k)",
        "broadcast": "SELECT /*+ BROADCAST(last) */ k, payload FROM torn_orc JOIN last ON k = j",
    }
    found = {}
    one_split = {"spark.sql.files.openCostInBytes": "64m"}
    with (
        sdf.create_filter(spark, "torn_keys", "bigint") as made,
        joins.settings(spark, joins.FOREVER, joins.FEW_TASKS, joins.ADAPTIVE[adaptive], one_split),
    ):
        made.update(sdf.between(last, rows))
        for enabled in (False, True):
            with sdf.conf(spark).override(enabled=enabled):
                df = spark.sql(queries[query])
                df._jdf.queryExecution().executedPlan()
                with joins.settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
                    found[enabled] = sorted(df.collect())
    # The stripe comes before what is looked for.
    assert found == {False: [], True: []}

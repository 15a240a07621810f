"""What executors tell each other while a query runs: needs processes of their own, so local-cluster only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import spark_dynamic_filters as sdf
from support import joins
from support.applications import run_application, value

FILES, GROUPS, ROWS = 12, 40, 2_000  # files, row groups a file, rows a row group

pytestmark = [pytest.mark.processes, pytest.mark.only("local-cluster"), pytest.mark.timeout(240)]


def _write(folder: Path, best_file: int) -> str:
    """A table whose best rows are all in one file; the best 5,000 rows of the others are everywhere."""
    folder.mkdir()
    random = np.random.default_rng(11)
    for i in range(FILES):
        # Spark reads the largest files first.
        n = (GROUPS + 15 * (i == best_file)) * ROWS
        k = random.integers(1_000_000, 2_000_000, n)
        if i == best_file:
            k = random.integers(0, 100, n)
        payload = {f"p{j}": random.integers(0, 1 << 30, n) for j in range(6)}
        table = pa.table({"k": k, "id": np.arange(n), **payload})
        pq.write_table(table, folder / f"part-{i:02}.parquet", row_group_size=ROWS, compression="zstd")
    return str(folder)


def _run(spark: SparkSession, df: DataFrame) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows, what each executor did, and the filters."""
    rows = df.collect()
    executors = spark.sql("SELECT * FROM dynamic_filter_executors()").collect()
    newest = max(r.query_id for r in executors)
    filters = [f for f in sdf.filters(spark).collect() if f.query_id == newest]
    return rows, [r for r in executors if r.query_id == newest and r.executor_id != "driver"], filters


def _counter(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"SELECT value FROM dynamic_filter_counters() WHERE name = '{name}'").head()[0])


@pytest.fixture
def one_file_a_task(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64m")
    spark.conf.set("spark.sql.files.openCostInBytes", "64m")


def _pruned_elsewhere(spark: SparkSession, folder: Path, enough: float = -1.0) -> float:
    """The share of row groups skipped by the executor that has not read the best file; the best of ten runs.

    Which tasks an executor gets is chance, and the bound may come when it has done them all: the first run
    that skips more than `enough` is the last.
    """
    shares: list[float] = []
    for attempt in range(10):
        # Of its own, so that no run knows statistics that another has learned.
        path = _write(folder.with_name(f"{folder.name}_{attempt}"), best_file=0)
        spark.read.parquet(path).createOrReplaceTempView("hits")
        rows, executors, filters = _run(spark, spark.sql("SELECT * FROM hits ORDER BY k LIMIT 5000"))
        assert len(rows) == 5000
        assert max(r.k for r in rows) < 100
        assert filters[0].generation > 0
        others = [e for e in executors if e.row_groups_total % GROUPS == 0]
        if others and others[0].row_groups_total >= 2 * GROUPS:
            shares.append(float(others[0].row_groups_pruned / others[0].row_groups_total))
            if shares[-1] > enough:
                break
    return max(shares) if shares else pytest.fail(f"one executor did all the work: {executors}")


@pytest.mark.usefixtures("one_file_a_task")
def test_bound_crosses_executors(spark: SparkSession, tmp_path: Path) -> None:
    shared = _pruned_elsewhere(spark, tmp_path / "shared", enough=0.25)
    with sdf.conf(spark).override(**{"exchange.enabled": False}):
        alone = _pruned_elsewhere(spark, tmp_path / "alone")
    # By itself it skips little, and most with what it hears.
    assert alone < 0.1, alone
    assert shared > 0.25, shared
    assert _counter(spark, "received") > 0
    assert _counter(spark, "sent") > 0


@pytest.mark.usefixtures("one_file_a_task")
def test_late_join_filter_reaches_running_scans(spark: SparkSession, tmp_path: Path) -> None:
    path = _write(tmp_path / "fact", best_file=3)
    spark.read.parquet(path).createOrReplaceTempView("fact")
    keys = spark.range(1000).selectExpr("id AS j", "id % 7 AS w").where("j < 20")
    keys.write.parquet(str(tmp_path / "keys"))
    spark.read.parquet(str(tmp_path / "keys")).createOrReplaceTempView("few_keys")
    query = (
        "SELECT /*+ MERGE(few_keys) */ count(*), sum(id), sum(p0), sum(p1) "
        "FROM few_keys JOIN fact ON j = k WHERE w < 5"
    )
    answers = {}
    with sdf.conf(spark).override(enabled=False):
        answers["off"] = spark.sql(query).collect()
    no_wait = {"spark.dynamicFilters.join.waitTimeout": "0s"}
    with joins.settings(spark, joins.SHUFFLED_AS_USERS_DO, no_wait):
        # No scan waits, so it is chance which partitions of which executor start after the filter is there.
        for _ in range(20):
            answers["on"], executors, filters = _run(spark, spark.sql(query))
            assert answers["on"] == answers["off"]
            assert [f.state for f in filters if f.producer == "join"] == ["ready"], filters
            assert all(f.wait_ms == 0 for f in filters), filters
            if len(executors) == 2 and min(e.row_groups_pruned for e in executors) > 0:
                break
        else:
            pytest.fail(f"no running scan was filtered: {executors}")


@pytest.mark.large
@pytest.mark.timeout(330)
def test_filter_of_64_mib_reaches_running_scans(tmp_path: Path) -> None:
    code = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from spark_dynamic_filters.testing import faults
spark = start("local-cluster[2,1,2048]", settings={
    "spark.driver.memory": "3g", "spark.executor.memory": "2g", "spark.driver.maxResultSize": "0",
    "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": "64m", "spark.sql.files.openCostInBytes": "64m",
    "spark.dynamicFilters.maxFilterBytes": "256m", "spark.dynamicFilters.in.maxValues": "100000000",
    "spark.dynamicFilters.join.maxBuildRows": "100000000", "spark.dynamicFilters.join.waitTimeout": "0s",
})
random = np.random.default_rng(3)
keys = np.unique(random.integers(0, 1 << 61, 12_000_000)) * 2
(folder / "keys").mkdir()
for i, part in enumerate(np.array_split(random.permutation(keys), 2)):
    path = folder / "keys" / f"{i}.parquet"
    pq.write_table(pa.table({"j": part}), path, compression="none", use_dictionary=False)
(folder / "fact").mkdir()
# Odd keys have no match. By its size this table has more rows than there are keys: it is filtered.
total = 0
for i in range(30):
    k = np.concatenate([random.integers(0, 1 << 61, 5_000) * 2 + 1, random.choice(keys, 50)])
    order = random.permutation(len(k))
    total += int((order[-50:]).sum())
    at = np.empty(len(k), np.int64)
    at[order] = k
    table = pa.table({"k": at, "id": np.arange(len(k)), "p": ["x" * 4000] * len(k)})
    path = folder / "fact" / f"{i:02}.parquet"
    pq.write_table(table, path, row_group_size=500, compression="none", use_dictionary=False)
for name in ("keys", "fact"):
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
# Without a condition a large build side is not expected to leave anything out.
few = "(SELECT j FROM keys WHERE j >= 0) AS few"
with faults(spark, slow_tasks=1.0, slow=1.5):
    got = spark.sql(f"SELECT /*+ MERGE(few) */ count(*), sum(id) FROM fact JOIN {few} ON k = j").collect()
expected = [(30 * 50, total)]
f = [f for f in sdf.filters(spark).collect() if f.producer == "join"][-1]
s = [s for s in sdf.scans(spark).collect() if s.query_id == f.query_id]
c = counters(spark)
print("SAME", [tuple(r) for r in got] == expected)
print("BYTES", f.size_bytes, f.form, f.state, f.reason, f.columns)
print("BROADCASTS", c["broadcasts"])
print("PRUNED", sum(x.rows_pruned for x in s), sum(x.rows_total for x in s))
print("WAITED", f.wait_ms)
print("GONE", c["failures"] + sum(c.get(f"executors.{x}", 0) for x in ("payloadsGone", "undecodable")))
held = spark.sql("SELECT value FROM dynamic_filter_live() WHERE name = 'broadcast blocks'").head()
print("BLOCKS", held.value)
spark.stop()
"""
    out = run_application(code, tmp_path, seconds=300, own_process=True)
    assert value(out, "SAME") == "True"
    assert int(value(out, "BYTES").split()[0]) >= 64 << 20, value(out, "BYTES")
    assert value(out, "BROADCASTS") == "1"
    assert int(value(out, "PRUNED").split()[0]) > 0
    assert value(out, "WAITED") == "0"
    assert value(out, "GONE") == "0"
    assert value(out, "BLOCKS") == "0"

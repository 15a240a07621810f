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

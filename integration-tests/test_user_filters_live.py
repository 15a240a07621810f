"""Updates while queries run: `prunes` follows those that tighten it, `matches` keeps what it started with."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters._analyze import tagged
from spark_dynamic_filters._report import QueryReport, by_tag
from support.joins import settings
from support.user_filters import users

pytestmark = [pytest.mark.processes, pytest.mark.timeout(150)]

FILES, GROUPS, ROWS = 24, 2, 60  # row groups of a file, rows of a row group

# A row takes four milliseconds in every kind of session, so two tasks at a time take six seconds in all. That
# leaves time for an update between the planning of a query and the start of its last tasks, also on a busy
# machine.
SLOW = (
    "SELECT count(*) AS n, max(length(s)) AS m FROM "
    "(SELECT k, reflect('java.lang.Thread', 'sleep', 4L) AS s FROM slow WHERE {condition})"
)
ALL = FILES * GROUPS * ROWS
#: Seconds from the start of a query to an update.
_AFTER = 2.0
#: Queries of each of four threads while another one updates.
READS = 6


@pytest.fixture(scope="module")
def slow(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("slow")
    for i in range(FILES):
        k = np.arange(i * GROUPS * ROWS, (i + 1) * GROUPS * ROWS)
        table = pa.table({"k": k, "payload": [format(v, "060d") for v in k]})
        pq.write_table(table, folder / f"part-{i:02}.parquet", row_group_size=ROWS)
    one_file_a_task = {
        "spark.sql.files.maxPartitionBytes": "64m",
        "spark.sql.files.openCostInBytes": "64m",
        # Batches must not hold more than a row group is about to give.
        "spark.sql.parquet.columnarReaderBatchSize": str(ROWS),
    }
    with settings(spark, one_file_a_task):
        spark.read.parquet(str(folder)).createOrReplaceTempView("slow")
        # Once before: an update must not come before the first query of all is planned.
        with sdf.create_filter(spark, "warm", "bigint"):
            spark.sql(SLOW.format(condition="k < 3 AND dynamic_filter_prune('warm', k)")).collect()
        yield


def _during(spark: SparkSession, condition: str, change: Callable[[], Any]) -> tuple[int, QueryReport]:
    """Runs the slow query and, while it runs, `change`."""

    def later() -> None:
        time.sleep(_AFTER)
        change()

    with ThreadPoolExecutor(1) as thread, tagged(spark) as tag:
        changed = thread.submit(later)
        start = time.monotonic()
        row = spark.sql(SLOW.format(condition=condition)).collect()[0]
        seconds = time.monotonic() - start
        changed.result()
    if row.n >= 0.9 * ALL:
        assert seconds > _AFTER + 1, "the query was over before the update"
    report = by_tag(spark, tag)
    assert report is not None
    return row.n, report


@pytest.mark.client
@pytest.mark.usefixtures("slow")
def test_a_bitmap_takes_effect_in_a_running_scan(spark: SparkSession, f: sdf.UserFilter) -> None:
    pytest.importorskip("pyroaring")
    keep = [0, ALL // 2 - 1, ALL // 2, ALL - 1]
    n, report = _during(spark, "dynamic_filter_prune('wanted', k)", lambda: f.update(sdf.bitmap(keep)))
    assert len(keep) <= n < 0.8 * ALL, n
    assert sum(s["row_groups_pruned"] for s in report.scans) > FILES * GROUPS // 6, report.scans
    (used,) = users(report)
    assert (used["generation"], used["form"]) == (1, "range+bitmap")


@pytest.mark.usefixtures("slow")
def test_updates_that_a_running_query_does_not_follow(spark: SparkSession, f: sdf.UserFilter) -> None:
    """`matches` is pinned, `prunes` follows what tightens; bad updates and closing change nothing."""
    pinned, closed = (sdf.create_filter(spark, name, "bigint") for name in ("pinned", "closed"))
    f.update(sdf.between(100, ALL - 1))

    def change() -> None:
        pinned.update(sdf.isin([5]))
        f.update(sdf.everything())
        f.update(sdf.between(0, ALL // 2 - 1))
        for bad in (sdf.isin(["x"]), sdf.bitmap(b"not a bitmap"), sdf.between(1.5, 2)):
            with pytest.raises(sdf.DynamicFiltersError):
                closed.update(bad)
        closed.close()

    condition = "dynamic_filter('pinned', k) AND dynamic_filter_prune('wanted', k)"
    n, report = _during(spark, f"{condition} AND dynamic_filter_prune('closed', k)", change)
    assert n == ALL - 100
    assert sorted(u["generation"] for u in users(report)) == [0, 0, 1]
    # They count from the next query on.
    assert spark.sql(f"SELECT k FROM slow WHERE {condition}").collect() == [(5,)]
    pinned.close()


@pytest.mark.usefixtures("slow")
def test_a_dataframe_that_runs_twice_at_a_time(spark: SparkSession, f: sdf.UserFilter) -> None:
    """The second run is planned anew: the first one has its own generation, and its own report."""
    f.update(sdf.between(0, 999))
    frame = spark.sql(
        "SELECT k, reflect('java.lang.Thread', 'sleep', 4L) AS s FROM slow WHERE dynamic_filter('wanted', k)"
    )

    def run() -> tuple[int, QueryReport | None]:
        with tagged(spark) as tag:
            rows = len(frame.collect())
        return rows, by_tag(spark, tag)

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(run)
        time.sleep(_AFTER)
        f.update(sdf.isin([5]))
        assert [row.k for row in frame.collect()] == [5]
        rows, report = first.result()
    assert rows in (1000, 1), "planned before the update, or after it on a machine that does other work"
    if rows == 1000:
        assert report is not None
        assert [u["generation"] for u in users(report)] == [1]


@pytest.mark.client
@pytest.mark.usefixtures("slow")
def test_a_large_update_reaches_running_scans(spark: SparkSession, f: sdf.UserFilter) -> None:
    """More than a mebibyte: much of what a message between driver and executors may carry."""
    keep = range(10_000_000, 4_000_000_000, 10_000)
    n, report = _during(spark, "dynamic_filter_prune('wanted', k)", lambda: f.update(sdf.isin([7, *keep])))
    assert 1 <= n < 0.9 * ALL, n
    assert [u["generation"] for u in users(report)] == [1]


@pytest.mark.client
@pytest.mark.usefixtures("slow")
def test_queries_while_another_thread_updates(spark: SparkSession, f: sdf.UserFilter) -> None:
    """Each answer of `matches` is that of one generation, in force between start and end of the query;
    `prunes` keeps at least the rows that pass all of these generations."""
    ranges: list[tuple[int, int]] = [(0, ALL - 1)]
    updated, readers_done = [0], threading.Event()

    def update() -> None:
        r = random.Random(5)
        while not readers_done.is_set():
            low = r.randrange(ALL)
            ranges.append((low, low + r.randrange(1, ALL // 2)))
            f.update(sdf.between(*ranges[-1]))
            updated[0] = len(ranges) - 1

    def read(condition: str, right: Callable[[set[int], list[set[int]]], bool]) -> None:
        for _ in range(READS):
            first = updated[0]
            rows = {r.k for r in spark.sql(f"SELECT k FROM slow WHERE {condition}('wanted', k)").collect()}
            of = [{k for k in range(low, high + 1) if k < ALL} for low, high in ranges[first:]]
            assert right(rows, of), (condition, first, len(ranges), sorted(rows)[:3], len(rows))

    how = [
        ("dynamic_filter", lambda rows, of: rows in of),
        ("dynamic_filter_prune", lambda rows, of: rows >= set.intersection(*of)),
    ]
    with ThreadPoolExecutor(5) as threads:
        updater = threads.submit(update)
        readers = [threads.submit(read, *each) for each in how * 2]
        wait(readers)
        readers_done.set()
    for thread in (updater, *readers):
        thread.result()
    assert updated[0] > READS, "the filter changed hardly ever"


def test_nothing_is_left(spark: SparkSession) -> None:
    assert spark.sql("SELECT * FROM dynamic_user_filters()").count() == 0
    counters = {r.name: r.value for r in spark.sql("SELECT * FROM dynamic_filter_counters()").collect()}
    assert counters["failures"] == 0
    assert counters.get("executors.undecodable", 0) == 0

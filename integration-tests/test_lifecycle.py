"""Nothing outlives a query, however it ends: no entry, no wait, no broadcast; and no thread for long."""

from __future__ import annotations

import contextlib
import gc
import random
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import faults
from support import joins

pytestmark = [pytest.mark.processes, pytest.mark.client, pytest.mark.timeout(150)]

# What tells executors that a query ended is a message, and the listener that sends it has a queue.
_SOON = 15.0
_THREADS = 75.0  # ten idle seconds after the last sweep, which comes within ten
_IDLE = 13.0
_LOST = 75.0  # a minute, and the next sweep
_SLOW = 6.0


def _held(spark: SparkSession, ignored: str = "threads") -> dict[str, int]:
    rows = spark.sql("SELECT * FROM dynamic_filter_live()").collect()
    return {f"{r.executor_id}: {r.name}": r.value for r in rows if r.value and r.name != ignored}


def _assert_nothing_left(
    spark: SparkSession, ignored: str = "threads", seconds: float = _SOON, every: float = 0.2
) -> None:
    until = time.monotonic() + seconds
    while held := _held(spark, ignored):
        assert time.monotonic() < until, f"left after {seconds} s: {held}"
        time.sleep(every)


def _threads_of_driver(spark: SparkSession) -> list[str]:
    """Names of our threads, without what all begin with."""
    prefix = "dynamic-filters-"
    names = [t.getName() for t in spark._jvm.java.lang.Thread.getAllStackTraces().keySet()]  # type: ignore[union-attr]
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _forget_broadcasts(spark: SparkSession, spark_mode: str) -> None:
    """Broadcasts go with their plan, and that with the garbage of the client and of the driver."""
    until = time.monotonic() + 30
    # Once is not enough: the client lets go of a plan when its own garbage is collected.
    while _held(spark).get("driver: broadcast blocks") and time.monotonic() < until:
        gc.collect()
        if spark_mode == "connect":
            # In the server's own process.
            spark.sql("SELECT reflect('java.lang.System', 'gc')").collect()
        else:
            spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        time.sleep(0.5)


@pytest.fixture(scope="module", autouse=True)
def _nothing_from_before(spark: SparkSession, spark_mode: str) -> None:
    """Faults of other modules lose words that queries ended; executors drop those queries after a minute."""
    _forget_broadcasts(spark, spark_mode)
    _assert_nothing_left(spark, seconds=_LOST)


@pytest.fixture(scope="module")
def joined(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shuffled join of `p`, which is filtered, with `few`; without what comes after WHERE."""
    folder = tmp_path_factory.mktemp("joined")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build(joins.within_row_group(3)))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return "SELECT /*+ MERGE(few) */ p.id, few.n FROM p JOIN few ON p.k = few.j"


def test_after_success(spark: SparkSession, t: str, joined: str, spark_mode: str) -> None:
    for i in range(3):
        spark.sql(f"SELECT * FROM {t} ORDER BY c_bigint LIMIT {5 + i}").collect()
        spark.sql(joined).collect()
    rows = spark.sql("SELECT * FROM dynamic_filter_live()").collect()
    names = {r.name for r in rows}
    assert {"executions", "tasks", "scans", "threads", "waits", "broadcast blocks"} <= names
    assert len({r.executor_id for r in rows}) == (3 if spark_mode == "local-cluster" else 1)
    _assert_nothing_left(spark)


def test_after_failure(spark: SparkSession, t: str, joined: str) -> None:
    broken = "CAST(concat('x', {}) AS INT) > 0"
    for query in (
        f"SELECT * FROM {t} WHERE {broken.format('id')} ORDER BY seq LIMIT 5",
        f"{joined} WHERE {broken.format('p.id')}",
    ):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            spark.sql(query).collect()
    _assert_nothing_left(spark)


def test_after_cancellation(spark: SparkSession, t: str, joined: str, spark_mode: str) -> None:
    cancel = spark.interruptAll if spark_mode == "connect" else spark.sparkContext.cancelAllJobs
    for query in (f"SELECT * FROM {t} ORDER BY c_int LIMIT 7", joined):
        with ThreadPoolExecutor(1) as thread, faults(spark, slow_tasks=1.0, slow=_SLOW):
            running = thread.submit(spark.sql(query).collect)
            # No question to the plugin meanwhile: that is a query, and slow tasks have all slots.
            while not wait([running], 1.0).done:
                cancel()
        assert running.exception(), "the query was not cancelled"
    _assert_nothing_left(spark)


def test_after_faults(spark: SparkSession, t: str, joined: str, spark_mode: str) -> None:
    lost_files = 0.3 if spark_mode == "local-cluster" else None
    with faults(spark, failing_tasks=0.6, late=0.5, fetch_failures=lost_files):
        spark.sql(f"SELECT * FROM {t} ORDER BY c_date LIMIT 7").collect()
        spark.sql(joined).collect()
    if spark_mode == "local-cluster":
        with faults(spark, killed_executors=1) as happened:
            spark.sql(f"SELECT * FROM {t} ORDER BY c_date LIMIT 7").collect()
        assert happened.injected["executor_killed"] == 1
    # Where the word that the query ended was late, the executor has been told again or has closed it already.
    _assert_nothing_left(spark)


@pytest.mark.only("connect")
def test_session_that_is_closed_during_a_query(
    spark: SparkSession, all_types_path: Path, new_session: Callable[[], SparkSession]
) -> None:
    from pyspark.errors.exceptions.connect import SparkConnectException

    session = new_session()
    best = session.read.parquet(str(all_types_path)).orderBy("c_int").limit(7)
    # What ends the faults asks the session, which has gone by then.
    with (
        ThreadPoolExecutor(1) as thread,
        contextlib.suppress(SparkConnectException),
        faults(session, slow_tasks=1.0, slow=_SLOW),
    ):
        running = thread.submit(best.collect)
        wait([running], 2.0)
        # Not stop(), which waits: the server ends the session's queries.
        session.client.release_session()  # type: ignore[attr-defined]
        assert running.exception(60), "the query was not cancelled"
    session.stop()
    _assert_nothing_left(spark)
    assert sdf.status(spark).active


def test_broadcast_filters_are_gone(spark: SparkSession, spark_mode: str, tmp_path: Path) -> None:
    """Filters above 64 KiB go with a scan as a broadcast."""
    r = random.Random(5)
    joins.view(spark, tmp_path, "big", joins.build(r.sample(range(20_000_000), 60_000)))
    joins.view(spark, tmp_path, "p2", joins.probe(rows=120_000))
    many = {"spark.dynamicFilters.in.maxValues": "100000"}
    with joins.settings(spark, many, joins.FOREVER):
        run = joins.run(spark, "SELECT /*+ MERGE(big) */ p2.id FROM p2 JOIN big ON p2.k = big.j")
    assert max(f["size_bytes"] for f in run.filters) > 64 * 1024, run
    del run
    _forget_broadcasts(spark, spark_mode)
    _assert_nothing_left(spark)


@pytest.mark.only("local-cluster")
def test_threads_end(spark: SparkSession, t: str) -> None:
    spark.sql(f"SELECT * FROM {t} ORDER BY c_bigint LIMIT 5").collect()
    executors = {k: n for k, n in _held(spark, "").items() if re.fullmatch(r"\d+: threads", k)}
    # One for the exchange, and one that holds messages back, where a test of faults ran just before.
    assert executors, "no executor is connected"
    assert all(n <= 2 for n in executors.values()), executors
    # The other threads end within seconds: up to eight ask for files, one writes learned statistics, one
    # looks for the stages of a query that waits.
    brief = {"files", "statistics", "stages"}
    driver = sorted(n for n in _threads_of_driver(spark) if n not in brief)
    assert len(driver) == len(set(driver)), driver
    assert set(driver) <= {"coordinator", "answers", "faults"}, driver
    # Each question is a query, of whose end the driver's thread is told. Broadcast blocks have a test of
    # their own: how long the driver keeps its copies is up to its garbage collector.
    _assert_nothing_left(spark, "broadcast blocks", seconds=_THREADS, every=_IDLE)

"""Probe stages that wait for their filter: never longer than they may, never for what will not come, and
without a task slot.

The cap of most waits here is far above what a query may take: who waits for nothing fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import FOREVER, STRATEGIES, Comparer

WAIT = "spark.dynamicFilters.join.waitTimeout"
PLANS = [(strategy, adaptive) for strategy in STRATEGIES for adaptive in joins.ADAPTIVE]

# Seconds that a query over these tables takes at most, on a machine that does other work too.
QUICK = 30.0

# `slow(value, seconds)` sleeps for one of the build's rows, `failing(value)` fails for it. It does so in a
# broadcast, so that the build side has no Python operator itself.
SLOW_BUILD = (
    "(SELECT /*+ BROADCAST(s) */ b.* FROM b "
    "LEFT SEMI JOIN (SELECT n FROM b WHERE slow(n, {seconds}) = n) s ON b.n = s.n)"
)
SLOW_JOIN = "SELECT p.id, x.n FROM p JOIN " + SLOW_BUILD + " x ON p.k = x.j"
FAILURES = {
    "raise_error": "(SELECT * FROM b WHERE IF(n = 7, raise_error('boom'), n) IS NOT NULL)",
    "python_function": "(SELECT * FROM b WHERE failing(n) IS NOT NULL)",
}


@pytest.fixture(scope="module", autouse=True)
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Knows the rows of `SLOW_JOIN` by that name."""
    folder = tmp_path_factory.mktemp("waiting")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    joins.view(spark, folder, "none", joins.build([]))
    for i in range(4):
        joins.view(spark, folder, f"p{i}", joins.probe(key=f"k{i}"))

    # It travels by value, as a local function: workers cannot import this module.
    def failing(value: int) -> int:
        if value == 7:
            raise ValueError("boom")
        return value

    joins.register_slow(spark)
    spark.udf.register("failing", failing, "bigint")
    # Python workers are up before the first test looks at the clock.
    spark.sql("SELECT slow(1, 0.0), failing(1)").collect()
    made = Comparer(spark)
    made(SLOW_JOIN.format(seconds=0.0), joins.SHUFFLED, expected=SLOW_JOIN, fires=None)
    return made


def _run(compare: Comparer, query: str, *groups: dict[str, str], seconds: float = 0.0) -> joins.Run:
    """Runs a query with filters, if that was not done before also without them."""
    run = compare(query.format(seconds=seconds), *groups, expected=query, fires=None).on
    assert run.seconds < QUICK, str(run)
    return run


def _cancel(query: threading.Thread, cancel: Callable[[], object]) -> None:
    """More than once: on a busy machine it may not have submitted a job yet."""
    deadline = time.perf_counter() + QUICK
    while query.is_alive() and time.perf_counter() < deadline:
        cancel()
        query.join(1.0)


def _wait_until_running(spark: SparkSession) -> None:
    """Returns when a query runs that has a filter."""
    deadline = time.perf_counter() + QUICK
    while not spark.sql("SELECT 1 FROM dynamic_filter_queries() WHERE state = 'running'").head():
        assert time.perf_counter() < deadline
        time.sleep(0.1)


def _waited(run: joins.Run) -> int:
    return max((f["wait_ms"] or 0 for f in run.filters), default=0)


def test_no_wait(compare: Comparer) -> None:
    run = _run(compare, SLOW_JOIN, joins.SHUFFLED, {WAIT: "0s"}, seconds=1.0)
    assert _waited(run) == 0, str(run)
    assert "join.late" in {f["reason_code"] for f in run.filters}, str(run)


def test_capped_wait(compare: Comparer) -> None:
    run = _run(compare, SLOW_JOIN, joins.SHUFFLED, {WAIT: "1s"}, seconds=3.5)
    assert 700 <= _waited(run) <= 3_000, str(run)


@pytest.mark.processes
def test_default_wait_lets_the_filter_arrive(compare: Comparer) -> None:
    run = _run(compare, SLOW_JOIN, joins.SHUFFLED_AS_USERS_DO, seconds=1.5)
    joins.assert_row_groups_pruned(run, "k")
    assert 700 <= _waited(run) < 10_000, str(run)


def test_broadcast_is_waited_for(compare: Comparer) -> None:
    for adaptive in joins.ADAPTIVE.values():
        run = _run(compare, SLOW_JOIN, joins.BROADCAST, adaptive, FOREVER, seconds=0.5)
        joins.assert_row_groups_pruned(run, "k")


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
def test_empty_build_side_ends_the_wait(compare: Comparer, strategy: str, adaptive: str) -> None:
    for build in ("none", "(SELECT * FROM b WHERE n > 1000)"):
        query = f"SELECT p.id, x.n FROM p JOIN {build} x ON p.k = x.j"
        run = _run(compare, query, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER)
        assert not run.rows
        if adaptive == "on" or strategy == "broadcast":
            joins.assert_never_read(run, "k")


def test_empty_probe_side_ends_the_query_before_another_stage_fails(compare: Comparer) -> None:
    # Held back, it would not tell adaptive execution in time that nothing else need run.
    failing = "(SELECT CAST(concat(max(s), 'x') AS BIGINT) AS c FROM p GROUP BY g)"
    build = SLOW_BUILD.replace(" ON b.n = s.n", " ON b.n = s.n WHERE b.h = 3 AND b.t = '3'")
    query = f"SELECT x.n FROM none x JOIN {build} y ON x.j = y.j JOIN {failing} f ON f.c = x.n"
    run = _run(compare, query, joins.SHUFFLED, seconds=1.0)
    assert not run.rows
    assert _waited(run) == 0, str(run)


@pytest.mark.processes
@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("failure", FAILURES)
def test_failing_build_side_fails_as_without_filters(
    spark: SparkSession, compare: Comparer, failure: str, strategy: str, adaptive: str
) -> None:
    query = f"SELECT p.id, x.n FROM p JOIN {FAILURES[failure]} x ON p.k = x.j"
    with joins.settings(spark, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER):
        start = time.perf_counter()
        joins.assert_same_failure(spark, query)
        assert time.perf_counter() - start < QUICK
    # And the session is as good as before.
    joins.assert_row_groups_pruned(_run(compare, SLOW_JOIN, joins.SHUFFLED), "k")


@pytest.mark.processes
@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
def test_cancelled_while_waiting(
    spark: SparkSession, compare: Comparer, strategy: str, adaptive: str
) -> None:
    outcome: list[BaseException | list] = []

    def query() -> None:
        try:
            outcome.append(spark.sql(SLOW_JOIN.format(seconds=25.0)).collect())
        except Exception as error:
            outcome.append(error)

    with joins.settings(spark, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER):
        thread = threading.Thread(target=query, daemon=True)
        thread.start()
        # A second later the build is asleep, and the probe waits for it.
        _wait_until_running(spark)
        time.sleep(1.0)
        assert not outcome
        start = time.perf_counter()
        _cancel(thread, spark.interruptAll)
    assert not thread.is_alive()
    assert time.perf_counter() - start < 15.0
    (result,) = outcome
    assert isinstance(result, Exception)
    # What waited for the cancelled query has gone with it.
    joins.assert_row_groups_pruned(_run(compare, SLOW_JOIN, joins.SHUFFLED), "k")


@pytest.mark.processes
def test_waits_hold_no_task_slot(compare: Comparer) -> None:
    # More waiting scans than there are slots: were one held, the build sides would never run.
    builds = [SLOW_BUILD.replace("b.n = s.n)", f"b.n = s.n WHERE b.n >= {-i})") for i in range(4)]
    query = " UNION ALL ".join(
        f"SELECT p.id, x.n FROM p{i} p JOIN {build} x ON p.k{i} = x.j" for i, build in enumerate(builds)
    )
    run = _run(compare, query, joins.SHUFFLED, seconds=0.5)
    joins.assert_row_groups_pruned(run, *(f"k{i}" for i in range(4)))


CYCLES = {
    "one_key_for_all": "SELECT x.id FROM p0 x, p1 y, p2 z WHERE x.k0 = y.k1 AND y.k1 = z.k2 AND x.id < 50",
    "crosswise": (
        "SELECT l.id FROM (SELECT x.id, x.k0, y.v FROM p0 x JOIN b ON x.k0 = b.j JOIN p1 y ON x.id = y.id) l "
        "JOIN (SELECT y.k1, x.g FROM p1 y JOIN b ON y.k1 = b.j JOIN p0 x ON x.id = y.id) r ON l.k0 = r.k1"
    ),
    "subquery_and_main_query": (
        "SELECT x.id FROM p0 x JOIN b ON x.k0 = b.j "
        "WHERE x.id > (SELECT min(y.id) FROM p1 y JOIN p0 z ON y.k1 = z.k0 JOIN b ON z.k0 = b.j)"
    ),
}


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("shape", CYCLES)
def test_waits_form_no_cycle(compare: Comparer, shape: str, strategy: str, adaptive: str) -> None:
    assert _run(compare, CYCLES[shape], STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER).rows


@pytest.mark.processes
def test_queries_at_the_same_time(spark: SparkSession, compare: Comparer) -> None:
    expected = sorted(_run(compare, SLOW_JOIN, joins.SHUFFLED).rows)
    outcome: list[object] = []

    def query() -> None:
        try:
            rows = spark.sql(SLOW_JOIN.format(seconds=0.2)).collect()
            outcome.append(sorted(rows) == expected)
        except Exception as error:
            outcome.append(error)

    with joins.settings(spark, joins.SHUFFLED, FOREVER):
        threads = [threading.Thread(target=query, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
    assert outcome == [True] * 6

"""Probe stages that wait for their filter: never longer than they may, never for what will not come, and
without a task slot.

The cap of most waits here is far above what a query may take: who waits for nothing fails.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from support import joins
from support.joins import FOREVER, STRATEGIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(170)

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
# The same from larger files, with one comparison of which nothing is known (of two columns: Spark does not
# infer it for the other side).
UNPROMISING_JOIN = (
    "SELECT p.id, x.n FROM large p JOIN (SELECT /*+ BROADCAST(s) */ b.* FROM wide b "
    "LEFT SEMI JOIN (SELECT n FROM wide WHERE slow(n, {seconds}) > -j) s ON b.n = s.n) x ON p.k = x.j"
)
FAILURES = {
    "raise_error": "(SELECT * FROM b WHERE IF(n = 7, raise_error('boom'), n) IS NOT NULL)",
    "python_function": "(SELECT * FROM b WHERE failing(n) IS NOT NULL)",
    "cast": "(SELECT * FROM b WHERE CAST(concat(t, 'x') AS BIGINT) IS NOT NULL)",
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("waiting")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    joins.view(spark, folder, "none", joins.build([]))
    joins.view(spark, folder, "many", joins.build(range(0, 600, 2)))
    for i in range(6):
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


def _padded(table: pa.Table, size: int) -> pa.Table:
    """Adds a column of so many bytes: what the files' size makes the planner expect."""
    values, cell = random.Random(1), size // table.num_rows
    padding = [values.randbytes(cell) for _ in range(table.num_rows)]
    return table.append_column("padding", pa.array(padding, pa.binary()))


# Rows without filters, by query.
_stock: dict[str, list[tuple]] = {}


def _expected(spark: SparkSession, query: str) -> list[tuple]:
    if query not in _stock:
        with sdf.conf(spark).override(enabled=False):
            _stock[query] = sorted(tuple(row) for row in spark.sql(query).collect())
    return _stock[query]


def _run(spark: SparkSession, query: str, *groups: dict[str, str], expected: str = "") -> joins.Run:
    """Runs a query, and asserts that its rows are those of the same, or of another, one without filters."""
    rows = _expected(spark, expected or query)
    with joins.settings(spark, *groups):
        run = joins.run(spark, query)
    assert sorted(tuple(row) for row in run.rows) == rows, str(run)
    return run


def _cancel(query: threading.Thread, cancel: Callable[[], object]) -> None:
    """More than once: on a busy machine it may not have submitted a job yet."""
    deadline = time.perf_counter() + QUICK
    while query.is_alive() and time.perf_counter() < deadline:
        cancel()
        query.join(1.0)


def _waited(run: joins.Run) -> int:
    return max((f["wait_ms"] or 0 for f in run.filters), default=0)


QUICK_JOIN = SLOW_JOIN.format(seconds=0.0)


def test_no_wait(spark: SparkSession) -> None:
    for adaptive in joins.ADAPTIVE.values():
        run = _run(
            spark, SLOW_JOIN.format(seconds=1.0), joins.SHUFFLED, adaptive, {WAIT: "0s"}, expected=QUICK_JOIN
        )
        assert _waited(run) == 0, str(run)
        assert run.seconds < QUICK, str(run)
        assert "join.late" in {f["reason_code"] for f in run.filters}, str(run)


def test_capped_wait(spark: SparkSession) -> None:
    run = _run(spark, SLOW_JOIN.format(seconds=4.0), joins.SHUFFLED, {WAIT: "1s"}, expected=QUICK_JOIN)
    assert 700 <= _waited(run) <= 3_000, str(run)
    assert run.seconds < 4.0 + QUICK, str(run)


def test_default_wait_lets_the_filter_arrive(spark: SparkSession) -> None:
    query = SLOW_JOIN.format(seconds=2.0)
    run = _run(spark, query, joins.SHUFFLED_AS_USERS_DO, expected=QUICK_JOIN)
    joins.assert_row_groups_pruned(run, "k")
    assert 700 <= _waited(run) < 10_000, str(run)


def test_wait_that_may_cost_more_than_the_filter_gives_is_short(spark: SparkSession, tmp_path: Path) -> None:
    joins.view(spark, tmp_path, "large", _padded(joins.probe(), 70 << 20))
    joins.view(spark, tmp_path, "wide", _padded(joins.build(joins.within_row_group(3)), 5 << 20))
    query, quick = (UNPROMISING_JOIN.format(seconds=seconds) for seconds in (2.0, 0.0))
    run = _run(spark, query, joins.SHUFFLED, expected=quick)
    joins.assert_ready(run, "k")
    assert _waited(run) < 1_000, str(run)
    # Who asks for the filter gets it.
    asked = query.replace("SELECT", "SELECT /*+ DYNAMIC_FILTER(p) */", 1)
    run = _run(spark, asked, joins.SHUFFLED, expected=quick)
    joins.assert_row_groups_pruned(run, "k")
    assert _waited(run) >= 700, str(run)


@pytest.mark.processes
def test_wait_ends_with_the_filter(spark: SparkSession) -> None:
    run = _run(spark, SLOW_JOIN.format(seconds=1.0), joins.SHUFFLED, FOREVER, expected=QUICK_JOIN)
    joins.assert_row_groups_pruned(run, "k")
    assert run.seconds < QUICK, str(run)


def test_broadcast_is_waited_for(spark: SparkSession) -> None:
    for adaptive in joins.ADAPTIVE.values():
        run = _run(
            spark, SLOW_JOIN.format(seconds=1.0), joins.BROADCAST, adaptive, FOREVER, expected=QUICK_JOIN
        )
        joins.assert_row_groups_pruned(run, "k")
        assert run.seconds < QUICK, str(run)


@pytest.mark.processes
@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
def test_empty_build_side_ends_the_wait(spark: SparkSession, strategy: str, adaptive: str) -> None:
    for build in ("none", "(SELECT * FROM b WHERE n > 1000)", "(SELECT * FROM b WHERE t = 'nowhere')"):
        query = f"SELECT p.id, x.n FROM p JOIN {build} x ON p.k = x.j"
        run = _run(spark, query, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER)
        assert not run.rows
        assert run.seconds < QUICK, str(run)
        if adaptive == "on" or strategy == "broadcast":
            joins.assert_never_read(run, "k")


def test_empty_probe_side_ends_the_query_before_another_stage_fails(spark: SparkSession) -> None:
    # Held back, it would not tell adaptive execution in time that nothing else need run.
    failing = "(SELECT CAST(concat(max(s), 'x') AS BIGINT) AS c FROM p GROUP BY g)"
    build = SLOW_BUILD.format(seconds=1.0).replace(
        " ON b.n = s.n", " ON b.n = s.n WHERE b.h = 3 AND b.t = '3'"
    )
    query = f"SELECT x.n FROM none x JOIN {build} y ON x.j = y.j JOIN {failing} f ON f.c = x.n"
    run = _run(spark, query, joins.SHUFFLED, FOREVER)
    assert not run.rows
    assert _waited(run) == 0, str(run)


@pytest.mark.processes
@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("failure", FAILURES)
def test_failing_build_side_fails_as_without_filters(
    spark: SparkSession, failure: str, strategy: str, adaptive: str
) -> None:
    query = f"SELECT p.id, x.n FROM p JOIN {FAILURES[failure]} x ON p.k = x.j"
    errors = {}
    for enabled in (False, True):
        with (
            sdf.conf(spark).override(enabled=enabled),
            joins.settings(spark, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER),
        ):
            start = time.perf_counter()
            with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, whatever it is
                spark.sql(query).collect()
            assert time.perf_counter() - start < QUICK
        error = caught.value
        condition = error.getCondition() if hasattr(error, "getCondition") else None
        errors[enabled] = (type(error), condition)
    assert errors[True] == errors[False]
    # And the session is as good as before.
    joins.assert_row_groups_pruned(_run(spark, QUICK_JOIN, joins.SHUFFLED, FOREVER), "k")


@pytest.mark.processes
@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
def test_cancelled_while_waiting(spark: SparkSession, strategy: str, adaptive: str) -> None:
    outcome: list[BaseException | list] = []

    def query() -> None:
        try:
            outcome.append(spark.sql(SLOW_JOIN.format(seconds=25.0)).collect())
        except Exception as error:
            outcome.append(error)

    with joins.settings(spark, STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER):
        thread = threading.Thread(target=query, daemon=True)
        thread.start()
        # Long enough for the build to be asleep, and the probe to wait for it.
        time.sleep(3.0)
        assert not outcome
        start = time.perf_counter()
        _cancel(thread, spark.interruptAll)
    assert not thread.is_alive()
    assert time.perf_counter() - start < 15.0
    (result,) = outcome
    assert isinstance(result, Exception)
    # What waited for the cancelled query has gone with it.
    joins.assert_row_groups_pruned(_run(spark, QUICK_JOIN, joins.SHUFFLED, FOREVER), "k")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_build_side_that_outgrows_every_bound(spark: SparkSession, strategy: str) -> None:
    query = "SELECT p.id, x.n FROM p JOIN many x ON p.k = x.j"
    bounds = {
        "spark.dynamicFilters.join.maxBuildRows": "10",
        "spark.dynamicFilters.in.maxValues": "5",
        "spark.dynamicFilters.maxFilterBytes": "64",
    }
    settings = STRATEGIES[strategy]
    run = _run(spark, query, settings, bounds, FOREVER)
    assert run.seconds < QUICK, str(run)
    (found,) = run.on_column("k")
    if found["state"] == "disabled":
        joins.assert_reason(run, "more than")
    else:
        assert set(found["form"].split("+")) <= {"range", "bloom"}, str(run)


@pytest.mark.processes
def test_waits_hold_no_task_slot(spark: SparkSession) -> None:
    # More waiting scans than there are slots: were one held, the build sides would never run.
    def query(seconds: float) -> str:
        return " UNION ALL ".join(
            f"SELECT p.id, x.n FROM p{i} p JOIN {SLOW_BUILD.format(seconds=seconds + i / 100)} x "
            f"ON p.k{i} = x.j"
            for i in range(6)
        )

    run = _run(spark, query(0.5), joins.SHUFFLED, FOREVER, expected=query(0.0))
    assert run.seconds < 2 * QUICK, str(run)
    joins.assert_row_groups_pruned(run, *(f"k{i}" for i in range(6)))


CYCLES = {
    "triangle": "SELECT x.id FROM p0 x, p1 y, p2 z WHERE x.k0 = y.k1 AND y.id = z.id AND z.k2 = x.k0",
    "one_key_for_all": "SELECT x.id FROM p0 x, p1 y, p2 z WHERE x.k0 = y.k1 AND y.k1 = z.k2 AND x.id < 50",
    "crosswise": (
        "SELECT l.id FROM (SELECT x.id, x.k0, y.v FROM p0 x JOIN b ON x.k0 = b.j JOIN p1 y ON x.id = y.id) l "
        "JOIN (SELECT y.k1, x.g FROM p1 y JOIN b ON y.k1 = b.j JOIN p0 x ON x.id = y.id) r ON l.k0 = r.k1"
    ),
    "subquery_and_main_query": (
        "SELECT x.id FROM p0 x JOIN b ON x.k0 = b.j "
        "WHERE x.id > (SELECT min(y.id) FROM p1 y JOIN p0 z ON y.k1 = z.k0 JOIN b ON z.k0 = b.j)"
    ),
    "semi_joins_both_ways": (
        "SELECT x.id FROM p0 x WHERE x.k0 IN (SELECT k1 FROM p1 WHERE id IN (SELECT id FROM p0 WHERE v = 3)) "
        "AND x.id IN (SELECT id FROM p1)"
    ),
}


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("shape", CYCLES)
def test_waits_form_no_cycle(spark: SparkSession, shape: str, strategy: str, adaptive: str) -> None:
    run = _run(spark, CYCLES[shape], STRATEGIES[strategy], joins.ADAPTIVE[adaptive], FOREVER)
    assert run.rows
    assert run.seconds < QUICK, str(run)


def test_stages_that_are_skipped(spark: SparkSession) -> None:
    # The second and third run take the shuffle files of the first: no tap runs, and nobody waits for one.
    with joins.settings(spark, joins.SHUFFLED, FOREVER):
        frame = spark.sql("SELECT p.id, b.n FROM p JOIN b ON p.k = b.j")
        rows = sorted(frame.collect())
        start = time.perf_counter()
        assert sorted(frame.collect()) == rows
        assert frame.count() == len(rows)
        assert time.perf_counter() - start < QUICK


@pytest.mark.processes
def test_queries_at_the_same_time(spark: SparkSession) -> None:
    expected = _expected(spark, QUICK_JOIN)
    outcome: list[object] = []

    def query() -> None:
        try:
            rows = spark.sql(SLOW_JOIN.format(seconds=0.2)).collect()
            outcome.append(sorted(tuple(row) for row in rows) == expected)
        except Exception as error:
            outcome.append(error)

    with joins.settings(spark, joins.SHUFFLED, FOREVER):
        threads = [threading.Thread(target=query, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
    assert outcome == [True] * 6

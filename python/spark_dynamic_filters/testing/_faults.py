"""Faults on purpose: lost, late, doubled and reordered updates, failing tasks, killed executors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .._conf import conf
from .._errors import DynamicFiltersError
from .._jar import FAULTS_ENABLED
from .._session import require_session, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPEC = "spark.dynamicFilters.testing.faults.spec"

# What `faults(spark)` does when nothing in particular is asked for.
_DEFAULT_UPDATES = {"lost": 0.15, "late": 0.15, "duplicated": 0.15, "reordered": 0.15}
_DEFAULT_FAILING_TASKS = 0.3

# Local mode gives each task one attempt, unless the master says more: local[N, attempts].
_ONE_ATTEMPT = re.compile(r"local(\[[^,\]]*\])?\s*|local\[[^,\]]*,\s*1\s*\]\s*")


class FaultsNotEnabled(DynamicFiltersError):
    """The Spark application was not started for fault injection; the message says what to set."""


class Faults:
    """What `faults` has injected; made by it.

    Counts are those of the whole Spark application since the `with` statement began.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before = _counters(spark)

    @property
    def injected(self) -> dict[str, int]:
        """How often each kind of fault was injected: `lost`, `late`, `duplicated`, `reordered`,
        `undecodable`, `coordinator_slow`, `task_failed`, `task_slow`, `executor_killed`, `shuffle_removed`.
        """
        return self._since("fault")

    @property
    def seen(self) -> dict[str, int]:
        """What Spark noticed: `task_failures`, `fetch_failures`, `speculative_tasks`, `executors_lost`."""
        return self._since("seen")

    @property
    def total(self) -> int:
        """How many faults were injected."""
        return sum(self.injected.values())

    def _since(self, prefix: str) -> dict[str, int]:
        return {
            _snake(name.removeprefix(prefix)): value - self._before.get(name, 0)
            for name, value in _counters(self._spark).items()
            if name.startswith(prefix)
        }

    def __repr__(self) -> str:
        happened = ", ".join(f"{k}={v}" for k, v in (self.injected | self.seen).items() if v)
        return f"Faults({happened or 'none'})"


@contextmanager
def faults(
    spark: SparkSession,
    *,
    seed: int = 0,
    lost: float | None = None,
    late: float | None = None,
    duplicated: float | None = None,
    reordered: float | None = None,
    undecodable: float | None = None,
    delay: float = 0.05,
    failing_tasks: float | None = None,
    slow_tasks: float | None = None,
    slow: float = 2.0,
    killed_executors: int | None = None,
    kill_best: bool = False,
    fetch_failures: float | None = None,
    slow_coordinator: float | None = None,
) -> Iterator[Faults]:
    """Injects faults into the queries that this session starts in the body of a `with` statement.

    ```python
    with faults(spark, seed=7, lost=0.3, failing_tasks=0.5) as injected:
        assert_same_result(spark, query, fires=None)  # filters may be lost
    assert injected.injected["task_failed"] > 0
    ```

    Without any kind of fault named: 15 % each of lost, late, duplicated and reordered updates, and 30 % of
    the tasks fail once (the latter only where Spark tries a failed task again). With one named, the others do
    not happen. A query must end well all the same, with the rows it has without faults.

    An update is what the parts of a dynamic filter tell each other: on a cluster the messages between
    executors and driver, and everywhere what tasks contribute to a TopK's bound and to a join's filter. Tasks
    are those that read through a dynamic filter; a fault of theirs comes when they have contributed all they
    know, in their first attempt only.

    Works alike in classic and Spark Connect sessions. The Spark application must have been started with
    `spark.dynamicFilters.testing.faults.enabled=true`, as the `spark` fixture of this package's pytest plugin
    is; without it the jar that injects faults is not there, and no session can add it.

    Args:
        spark: a classic or Spark Connect session.
        seed: of all choices. The same seed makes the same ones, as far as the same tasks and updates come in
            the same order.
        lost: share of updates that never arrive, 0 to 1. `lost`, `late`, `duplicated`, `reordered` and
            `undecodable` are shares of the same updates: together at most 1.
        late: share of updates that arrive `delay` seconds later, perhaps after their query.
        duplicated: share of updates that arrive twice.
        reordered: share of updates that arrive after the one that follows.
        undecodable: share of messages that arrive as something that nobody can decode: malformed, of another
            version, too long. Updates inside a process are no messages and arrive as they are.
        delay: seconds that late updates take longer.
        failing_tasks: share of tasks that fail once. Needs a master that tries failed tasks again, in local
            mode `local[N, attempts]`.
        slow_tasks: share of tasks that take `slow` seconds longer before they end. With `spark.speculation`
            Spark starts copies of them.
        slow: seconds.
        killed_executors: how many executor processes end in each query, after a task of theirs has
            contributed. Needs executors of their own (local-cluster, or a cluster that replaces executors).
        kill_best: whether only executors are killed whose rows make a TopK's bound at that time.
        fetch_failures: share of map tasks whose shuffle files are gone when they have ended, so that Spark
            computes them again when they are asked for. Needs executors of their own.
        slow_coordinator: seconds that the driver takes for each message.

    Yields:
        What was injected so far; see `Faults`.

    Raises:
        FaultsNotEnabled: the application was not started for it.
        ValueError: a value out of range, or a fault that this Spark application cannot have.
        PluginNotLoaded: the plugin is not active.
    """
    require_session("faults", spark)
    # Says so where the plugin is missing.
    conf(spark)
    _require_enabled(spark)
    shares = {
        "lost": lost,
        "late": late,
        "duplicated": duplicated,
        "reordered": reordered,
        "undecodable": undecodable,
        "failingTasks": failing_tasks,
        "slowTasks": slow_tasks,
        "fetchFailures": fetch_failures,
    }
    others = {"killedExecutors": killed_executors, "coordinatorMillis": _millis(slow_coordinator)}
    named = {k: v for k, v in {**shares, **others}.items() if v is not None}
    if not named:
        named = dict(_DEFAULT_UPDATES)
        if not _one_attempt(spark):
            named["failingTasks"] = _DEFAULT_FAILING_TASKS
    _check_possible(spark, named)
    spec = {
        "seed": int(seed),
        **named,
        "delayMillis": _millis(delay),
        "slowMillis": _millis(slow),
        "killBest": str(bool(kill_best)).lower(),
    }
    with _setting(spark, spec):
        yield Faults(spark)


@contextmanager
def _setting(spark: SparkSession, spec: Mapping[str, object]) -> Iterator[None]:
    before = spark.conf.get(_SPEC, "")
    try:
        spark.conf.set(_SPEC, ",".join(f"{k}={v}" for k, v in spec.items()))
    except Exception as error:
        # Spark Connect has another exception than a classic session; the plugin's sentence is in both.
        found = re.search(re.escape(_SPEC) + r": ([^\n]*?)(?:\.? SQLSTATE: \w{5})?(?:\n|$)", str(error))
        if found is None:
            raise
        raise ValueError(f"faults: {found[1]}") from error
    try:
        yield
    finally:
        if before:
            spark.conf.set(_SPEC, before)
        else:
            spark.conf.unset(_SPEC)


def _require_enabled(spark: SparkSession) -> None:
    # The counters of faults are there only where faults can be injected: a session's own value tells nothing.
    if not any(name.startswith("fault") for name in _counters(spark)):
        raise FaultsNotEnabled(
            "faults: this application was not started for them: use "
            f'sdf.configure(builder.config("{FAULTS_ENABLED}", "true")), or --conf {FAULTS_ENABLED}=true '
            "with the jar of `python -m spark_dynamic_filters jar --faults`; no running session can"
        )


def _check_possible(spark: SparkSession, named: Mapping[str, float]) -> None:
    if named.get("failingTasks") and _one_attempt(spark):
        raise ValueError(
            f"faults: failing_tasks: with master {_master(spark)} Spark gives each task one attempt, so a "
            "failing task fails the query; use local[2, 4] or a cluster"
        )
    if not _master(spark).startswith("local") or _master(spark).startswith("local-cluster"):
        return
    if named.get("killedExecutors"):
        raise ValueError(
            f"faults: killed_executors: with master {_master(spark)} there are no executors but the driver; "
            "use local-cluster or a cluster"
        )
    # Seen in Spark 4.1.4 and 4.3.0: the block manager that files could not be fetched from is struck off and
    # the driver's own cannot register again, so that no broadcast is ever removed and the heap fills up.
    if named.get("fetchFailures"):
        raise ValueError(
            f"faults: fetch_failures: with master {_master(spark)} Spark does not recover from them: it "
            "keeps the broadcasts of all later queries; use local-cluster or a cluster"
        )


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", ""))


def _one_attempt(spark: SparkSession) -> bool:
    return _ONE_ATTEMPT.fullmatch(_master(spark)) is not None


def _counters(spark: SparkSession) -> dict[str, int]:
    rows = sql(spark, "SELECT name, value FROM dynamic_filter_counters()").collect()
    return {row["name"]: row["value"] for row in rows}


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()

"""Runs a statement without filters and with them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .. import joins
from . import comparison
from .comparison import Rows
from .data import forget
from .model import Statement

_ENABLED = "spark.dynamicFilters.enabled"
# Little data: two hundred partitions would take most of the time.
_ALWAYS = {"spark.dynamicFilters.report.retainedQueries": "1000", "spark.sql.shuffle.partitions": "2"}
_REPORT_SECONDS = 10.0
# So many seconds a query may take with filters; without, half of it.
_LIMIT = 40.0
# So much longer than without filters no query over tables of this size may take with them, in seconds.
_SLOWER = 5.0
# How often stock Spark is asked again where it may fail by chance.
_TRIES = 4
# Reasons that tell of a mistake in a filter, and of nothing that a query or its data may bring about.
_INSIDE = (
    "(Exception|Error) (while|in) |this should not happen|^.* is not in the .* below$|is not in the input$"
    "|the keys of some partitions of the build side did not reach the driver"
)
_GIVEN_UP = ("maximum allowable number of times", "FetchFailed", "ExecutorLost", "Failed to get broadcast")


@dataclass
class Outcome:
    """What became of a statement.

    Attributes:
        status: same | different | failed | late (stock Spark answered, filters did not, or not in time) |
            slow (seconds more with filters, whenever it runs: a wait for nothing) | broken (the rows are the
            same, but a filter failed inside) | refused (stock Spark has no answer) | unstable (it has more
            than one) | lost (Spark has given up for the losses alone).
        detail: which rows differ, or the error.
        tag: of the run with filters.
    """

    status: str
    detail: str = ""
    tag: str = ""

    @property
    def is_fault(self) -> bool:
        return self.status in ("different", "failed", "late", "slow", "broken")


class Late(Exception):
    """A query was cancelled after its time."""


class Runner:
    """Runs statements in one session, whose settings it changes.

    Args:
        spark: a session of its own.
        keys: settings that statements may come with; outside a statement they are as Spark and the plugin
            ship them.

    Attributes:
        losses: what happens while a query runs with filters.
    """

    def __init__(self, spark: SparkSession, keys: tuple[str, ...]) -> None:
        self.spark = spark
        self.losses: Callable[[], AbstractContextManager[object]] = nullcontext
        for key in keys:
            spark.conf.unset(key)
        for key, value in _ALWAYS.items():
            spark.conf.set(key, value)
        joins.register_slow(spark)

    def compare(self, statement: Statement, settings: dict[str, str]) -> Outcome:
        """Runs a statement twice; where the rows differ, once more without filters."""
        with joins.settings(self.spark, settings):
            tag = f"generated-{uuid.uuid4().hex}"
            start = time.perf_counter()
            try:
                expected = self.rows(statement, False, _LIMIT / 2)
            except Exception as e:
                return Outcome("refused", message(e))
            between = time.perf_counter()
            try:
                with self.losses():
                    actual = self.rows(statement, True, _LIMIT, tag)
            except Late:
                return Outcome("late", f"not done after {_LIMIT:.0f} s", tag)
            except Exception as e:
                if _by_losses(e):
                    return Outcome("lost", message(e), tag)
                chance = self._fails_at_times(statement, e)
                return Outcome("unstable" if chance else "failed", message(e), tag)
            seconds = (between - start, time.perf_counter() - between)
            detail = self._difference(statement, expected, actual)
            if not detail:
                slow = self._slower(statement, seconds)
                return Outcome("slow" if slow else "same", slow, tag)
            again = self.rows(statement, False, _LIMIT)
            unstable = self._difference(statement, expected, again)
            return Outcome("unstable" if unstable else "different", detail, tag)

    def _slower(self, statement: Statement, seconds: tuple[float, float]) -> str:
        """Whether filters make a query slower by seconds, whenever it runs; empty if they do not.

        While faults are injected it says nothing: a task that fails is tried again.
        """
        if seconds[1] - seconds[0] < _SLOWER or self.losses is not nullcontext:
            return ""
        again = []
        for filters in (True, False):
            start = time.perf_counter()
            self.rows(statement, filters, _LIMIT)
            again.append(time.perf_counter() - start)
        if again[0] - again[1] < _SLOWER:
            return ""
        return f"{again[1]:.1f} s without filters, {again[0]:.1f} s with them, twice"

    def _fails_at_times(self, statement: Statement, error: Exception) -> bool:
        """Whether the query fails in the same way without filters, if run again.

        With adaptive execution it is a race whether Spark comes to a row with an ANSI error before it finds
        that the other side of a join is empty.
        """
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        for _ in range(_TRIES if condition else 0):
            try:
                self.rows(statement, False, _LIMIT / 2)
            except PySparkException as again:
                if again.getCondition() == condition:
                    return True
            except Exception:
                return False
        return False

    def _difference(self, statement: Statement, expected: Rows, actual: Rows) -> str:
        return comparison.difference(
            statement, expected, actual, lambda: self.rows(statement, False, _LIMIT, unlimited=True)
        )

    def rows(
        self, statement: Statement, filters: bool, limit: float, tag: str = "", unlimited: bool = False
    ) -> Rows:
        """The rows of a query; if they are cached, each as often as it is read from there, twice.

        Args:
            unlimited: without its LIMIT.

        Raises:
            Late: it was not done in time.
        """
        tag = tag or f"generated-{uuid.uuid4().hex}"
        self.spark.conf.set(_ENABLED, str(filters).lower())
        self.spark.addTag(tag)
        late = threading.Event()

        def cancel() -> None:
            late.set()
            self.spark.interruptTag(tag)

        timer = threading.Timer(limit, cancel)
        timer.daemon = True
        timer.start()
        try:
            for text in statement.before():
                self.spark.sql(text)
            frame = self.spark.sql(statement.unlimited() if unlimited else statement.sql())
            return _twice(frame) if statement.cached else frame.collect()
        except Exception:
            if late.is_set():
                raise Late from None
            raise
        finally:
            timer.cancel()
            self.spark.removeTag(tag)
            forget(self.spark, [part.name for part in statement.kept])

    def fired(self, tags: list[str]) -> set[str]:
        """Which of the runs had a filter because of which rows were skipped."""
        skipped = "s.rows_pruned > 0 OR s.files_pruned > 0 OR s.row_groups_pruned > 0"
        found = self._reported(
            tags, f"SELECT query_id, '' AS reason FROM dynamic_filter_scans() s WHERE {skipped}"
        )
        return set(found)

    def broken(self, tags: list[str]) -> dict[str, str]:
        """Which of the runs had a filter that failed inside, and why. No row tells of it: rows pass."""
        return self._reported(
            tags,
            "SELECT * FROM (SELECT query_id, reason FROM dynamic_filters() UNION ALL "
            "SELECT query_id, explode(map_keys(reasons)) FROM dynamic_filter_scans()) "
            f"WHERE reason RLIKE '{_INSIDE}'",
        )

    def _reported(self, tags: list[str], reports: str) -> dict[str, str]:
        """By tag, one of the reasons that reports with columns `query_id` and `reason` have."""
        if not tags:
            return {}
        self.spark.conf.set(_ENABLED, "false")
        until = time.monotonic() + _REPORT_SECONDS
        last = f"exists(tags, x -> contains(x, '{tags[-1]}'))"
        running = f"SELECT 1 FROM dynamic_filter_queries() WHERE state = 'running' AND {last}"
        while time.monotonic() < until and self.spark.sql(running).collect():
            time.sleep(0.05)
        wanted = ", ".join(f"'{t}'" for t in tags)
        found = self.spark.sql(
            "SELECT t, max(reason) AS reason FROM "
            "(SELECT query_id, explode(tags) AS tag FROM dynamic_filter_queries()) "
            f"JOIN ({reports}) USING (query_id) "
            f"JOIN (SELECT explode(array({wanted})) AS t) ON contains(tag, t) GROUP BY t"
        ).collect()
        return {row["t"]: row["reason"] for row in found}


def _twice(frame: DataFrame) -> Rows:
    frame.cache()
    try:
        return [*frame.collect(), *frame.collect()]
    finally:
        frame.unpersist(blocking=True)


def _by_losses(error: Exception) -> bool:
    """Whether Spark gave a query up because too much was lost, not because outputs of map tasks differ."""
    text = str(error)
    return any(why in text for why in _GIVEN_UP) and "ndeterminate" not in text


def message(error: Exception) -> str:
    """The first lines of an error."""
    return " ".join(str(error).split())[:600]

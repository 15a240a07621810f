"""Statements of one seed after the other, until time is over or there is a fault."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from .. import joins
from . import data, failing, queries, replanned, shared, subqueries
from . import settings as settings_
from .data import Table
from .model import Statement
from .running import Outcome, Runner
from .shrinking import shrink

#: Statements over the tables of one seed.
STATEMENTS = 40

#: What makes a statement, by kind; `joins` and `computed` are those of `queries`.
KINDS: dict[str, Callable[[random.Random, list[Table]], Statement]] = {
    "joins": queries.statement,
    "subqueries": subqueries.statement,
    "replanned": replanned.statement,
    "computed": partial(queries.statement, computed=True),
    "shared": shared.statement,
    "failing": failing.statement,
}


@dataclass
class Fault:
    """A statement that has another answer with filters than without, or none.

    Attributes:
        kind: one of `KINDS`.
        seed: of its tables.
        number: of the statement within the seed.
        statement, settings: as small as could be found.
    """

    kind: str
    seed: int
    number: int
    outcome: Outcome
    statement: Statement
    settings: dict[str, str]
    tables: list[Table]

    def __str__(self) -> str:
        used = [t for t in self.tables if t.name in self.statement.script()]
        again = f"SEED={self.seed} STATEMENT={self.number} KIND={self.kind}"
        return "\n".join(
            (
                f"{self.outcome.status}: seed {self.seed}, statement {self.number} (make fuzz {again})",
                self.outcome.detail,
                *(f"-- {table}" for table in used),
                *(f"SET {key}={value};" for key, value in self.settings.items()),
                self.statement.script(),
            )
        )


@dataclass
class Tally:
    """What has happened so far.

    Attributes:
        statuses: how many statements ended in which way.
        fired: how many had a filter that skipped rows.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    fired: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(n for status, n in self.statuses.items() if status not in ("refused", "lost", "broken"))

    @property
    def share(self) -> float:
        """Of the statements with an answer, how many had a filter that skipped rows; 0 to 1."""
        return self.fired / max(self.answered, 1)

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in sorted(self.statuses.items()))
        return f"{sum(self.statuses.values())} statements: {counts}; filters skipped rows in {self.share:.0%}"


def make(
    seed: int, number: int, tables: list[Table], kind: str = "joins"
) -> tuple[Statement, dict[str, str]]:
    """The statement of this number, and its settings."""
    r = random.Random(f"{seed}/{number}")
    statement = KINDS[kind](r, tables)
    return statement, settings_.choose(r, statement.sql(), replanning=kind == "replanned")


class Campaign:
    """Runs statements in one session.

    Args:
        folder: for tables; those of a seed are removed when the next begins.
        shrinking: seconds to look for a smaller statement that fails too.
        report: is told of a fault at once, before its statement is made small, which takes time.

    Attributes:
        kind: of its statements, one of `KINDS`.
        expects_failures: whether filters may fail inside, as where faults are injected.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        shrinking: float = 120.0,
        report: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.runner = Runner(spark, settings_.KEYS)
        self.folder = folder
        self.kind = "joins"
        self.report = report
        self.shrinking = shrinking
        self.tally = Tally()
        self.expects_failures = False

    def run(
        self, seed: int, numbers: range | list[int] = range(STATEMENTS), until: float | None = None
    ) -> Tally:
        """The statements of one seed.

        Args:
            until: time on the monotonic clock at which no more are begun.
        """
        folder = self.folder / f"seed-{seed}"
        try:
            tags = {}
            with self._tables(folder, seed) as all_tables:
                for number in numbers:
                    if until is not None and time.monotonic() > until:
                        break
                    if tag := self._one(seed, number, all_tables):
                        tags[tag] = number
            self.tally.fired += len(self.runner.fired(list(tags)))
            if not self.expects_failures:
                for tag, reason in self.runner.broken(list(tags)).items():
                    self.tally.statuses["broken"] += 1
                    made = make(seed, tags[tag], all_tables, self.kind)
                    fault = Fault(self.kind, seed, tags[tag], Outcome("broken", reason), *made, all_tables)
                    self.tally.faults.append(fault)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self.tally

    def _tables(self, folder: Path, seed: int) -> AbstractContextManager[list[Table]]:
        """The tables of a seed, and views of them that a kind asks for."""
        if self.kind == "failing":
            return failing.tables(self.runner.spark, folder, seed)
        with joins.settings(self.runner.spark, {"spark.dynamicFilters.enabled": "false"}):
            tables = data.write(self.runner.spark, folder, seed)
        if self.kind == "subqueries":
            return data.cached(self.runner.spark, tables)
        return data.older(self.runner.spark, tables) if self.kind == "replanned" else nullcontext(tables)

    def _one(self, seed: int, number: int, tables: list[Table]) -> str:
        statement, values = make(seed, number, tables, self.kind)
        outcome = self.runner.compare(statement, values)
        self.tally.statuses[outcome.status] += 1
        if outcome.is_fault:
            self.report(
                f"{outcome.status}: seed {seed}, statement {number}: {outcome.detail}\n{statement.script()}"
            )

            def still_fails(candidate: Statement, settings: dict[str, str]) -> bool:
                return self.runner.compare(candidate, settings).status == outcome.status

            seconds = 0.0 if outcome.status in ("late", "slow") else self.shrinking
            small, fewer = shrink(statement, values, still_fails, seconds)
            again = self.runner.compare(small, fewer)
            found = again if again.is_fault else outcome
            self.tally.faults.append(Fault(self.kind, seed, number, found, small, fewer, tables))
        return outcome.tag

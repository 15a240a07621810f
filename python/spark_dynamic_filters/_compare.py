"""Runs a query with filters off and on by turns, and says what they gave."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ._analysis_html import Page
from ._analyze import Analysis, require_query, run_analyzed
from ._conf import conf
from ._errors import InvalidArgument
from ._html_table import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("filters", "seconds", "fastest to slowest", "processor seconds")


@dataclass(frozen=True)
class Run:
    """One run of the query.

    Attributes:
        seconds: wall-clock time.
        processor_seconds: processor time of its tasks.
    """

    seconds: float
    processor_seconds: float


@dataclass(frozen=True, eq=False)
class Comparison(Page):
    """A query with filters off and on; made by `compare(df)`. Prints as text, and shows in a notebook.

    Attributes:
        off, on: the timed runs.
        rows: "equal"; "ties" if a LIMIT chose other rows among those that are equal in its sort keys, as
            Spark itself may; "different", which is a fault of the filters.
        difference: the rows that differ, empty if they are equal.
        analysis: the last run with filters.
    """

    off: Sequence[Run]
    on: Sequence[Run]
    rows: str
    difference: str
    analysis: Analysis

    @property
    def ratio(self) -> float:
        """Seconds with filters over seconds without, both medians: 0.5 is twice as fast."""
        return _median(self.on) / max(_median(self.off), 1e-9)

    @property
    def equal(self) -> bool:
        """Whether the rows are the same, ties aside."""
        return self.rows != "different"

    def __str__(self) -> str:
        lines = [
            f"filters {name:3}  {seconds:>9} s  ({span} s), processor {processor} s"
            for name, seconds, span, processor in self._cells()
        ]
        return "\n".join([*lines, self._verdict(), self.analysis.summary(), *self._faults()])

    def __repr__(self) -> str:
        return f"Comparison(ratio={self.ratio:.3f}, rows={self.rows!r}, runs={len(self.on)})"

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{escape(line)}</p>" for line in [self._verdict(), *self._faults()])
        return table(_COLUMNS, self._cells()) + told + self.analysis._repr_html_()

    def _title(self) -> str:
        return f"query {self.analysis.query_id} with filters off and on"

    def _cells(self) -> list[list[str]]:
        return [
            [
                name,
                f"{_median(runs):.3f}",
                f"{min(r.seconds for r in runs):.3f} to {max(r.seconds for r in runs):.3f}",
                f"{statistics.median(r.processor_seconds for r in runs):.3f}",
            ]
            for name, runs in (("off", self.off), ("on", self.on))
        ]

    def _verdict(self) -> str:
        faster = 1 / self.ratio if self.ratio < 1 else self.ratio
        told = {
            "equal": "rows equal",
            "ties": "rows equal but for ties of a LIMIT",
            "different": "ROWS DIFFER",
        }
        way = "fast" if self.ratio < 1 else "slow"
        return f"ratio {self.ratio:.2f} ({faster:.1f} times as {way} with filters); {told[self.rows]}"

    def _faults(self) -> list[str]:
        return self.difference.splitlines() if self.rows == "different" else []


def compare(df: DataFrame, runs: int = 3) -> Comparison:
    """Runs `df` with filters off and on, by turns, and compares time and rows.

    First each way collects the rows once, which are compared and warm everything up: the rows must fit into
    the client's memory. The timed runs drop their rows: the time to bring them to the client does not count.
    Meanwhile `spark.dynamicFilters.enabled` of the session changes, for other threads with this session, too.

    Args:
        df: a batch DataFrame of a classic or Spark Connect session. It is planned anew for each run.
        runs: timed runs of each way; 1 or more.

    Raises:
        InvalidArgument: `df` is no batch DataFrame of Spark's or the result of a command; `runs` is no whole
            number from 1; or the rows of `df` differ from run to run without filters, too, as with
            `current_timestamp()`.
        PluginNotLoaded: the plugin is not active; the message says what to add.
        VersionMismatch: plugin and this package do not go together; the message says which to change.
        DynamicFiltersError: the plugin kept no report of a run.
    """
    spark = require_query("compare", df)
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise InvalidArgument(f"compare: runs is {runs!r}; valid are whole numbers from 1")
    difference = _difference(spark, df)
    ways: dict[bool, list[Run]] = {False: [], True: []}
    analysis = None
    for i in range(runs):
        for enabled in (False, True) if i % 2 == 0 else (True, False):
            with conf(spark).override(enabled=enabled):
                analyzed = run_analyzed(spark, "compare", df)
            ways[enabled].append(Run(analyzed.seconds, analyzed.processor_ms / 1000))
            analysis = analyzed if enabled else analysis
    assert analysis is not None
    rows = "equal" if not difference else "ties" if difference.startswith("only ties") else "different"
    return Comparison(ways[False], ways[True], rows, difference, analysis)


def _difference(spark: SparkSession, df: DataFrame) -> str:
    """How the rows differ with filters; empty if they are equal."""
    # Only here: the harness imports this package.
    from .testing import assert_same_result
    from .testing._rows import multiset_difference

    try:
        assert_same_result(spark, df, alone=False, fires=None)
    except AssertionError as error:
        with conf(spark).override(enabled=False):
            first, second = (df.select("*").collect() for _ in range(2))
        if any(multiset_difference(first, second, 0.0)):
            raise InvalidArgument(
                "compare: the rows differ from run to run without filters, too: the query has random "
                "numbers, the time of day, or a LIMIT that may choose"
            ) from None
        return str(error)
    return ""


def _median(runs: Sequence[Run]) -> float:
    return statistics.median(run.seconds for run in runs)

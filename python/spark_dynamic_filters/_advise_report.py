"""The command `advise`: which queries of event logs would gain by dynamic filters, as text, JSON and HTML."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from . import _analysis_text, _html_table
from ._advise_log import Application, Execution, Unreadable, find, read
from ._advise_plan import Query, judge
from ._analysis_html import STYLE, document
from ._errors import shown, unsupported_spark

_HEADER = ("query", "seconds", "task time", "spared", "scan", "rows", "pass", "filters")
_MOST_QUERIES, _MOST_REASONS = 20, 10
_TITLE = "Which queries would gain by dynamic filters"


class Advice:
    """What is said of one application.

    Attributes:
        queries: those that ended and had tasks, the ones that would gain most first.
        in_the_way: what would keep filters off the whole application.
    """

    def __init__(self, app: Application, queries: list[Query]) -> None:
        self.app = app
        queries = [q for q in queries if q.task_ms]
        self.queries = sorted(queries, key=lambda q: (not q.gains, -q.spared[1] * q.task_ms))
        properties = app.properties
        self.in_the_way = [reason] if app.spark and (reason := unsupported_spark(app.spark)) else []
        if properties.get("spark.sql.parquet.enableVectorizedReader") == "false":
            self.in_the_way.append("the reader is not Spark's vectorized one")
        if properties.get("spark.sql.files.ignoreCorruptFiles") == "true":
            self.in_the_way.append(
                "corrupt files are ignored: skipping could change which of their rows are returned"
            )
        if "org.dynamicfilters" in properties.get("spark.plugins", ""):
            self.in_the_way.append("the plugin was loaded already: its filters have spared what they could")

    @property
    def heads(self) -> list[str]:
        """The application, its sum, and what was wrong with the log, a sentence each."""
        app, gaining, count = self.app, sum(q.gains for q in self.queries), len(self.queries)
        name = shown(app.name or app.path.name)
        return [
            f"{name} ({app.id or app.path.name}), Spark {app.spark or 'unknown'}: "
            f"{_seconds(app.task_ms)} of task time",
            f"{gaining:,} of {count:,} {'query' if count == 1 else 'queries'} would gain; "
            f"filters could spare {_range(*self.shares)} of the application's task time",
            *(f"note: {problem}" for problem in app.problems),
            *(f"in the way: {reason}" for reason in self.in_the_way),
        ]

    @property
    def shares(self) -> tuple[float, float]:
        """Of the application's task time, what filters spare at least and at most."""
        low, high = (sum(q.spared[i] * q.task_ms for q in self.queries) for i in (0, 1))
        return low / max(1, self.app.task_ms), high / max(1, self.app.task_ms)

    @property
    def rows(self) -> list[list[str]]:
        """Cells under the header: of each query that would gain, its scans."""
        cells = []
        for query in [q for q in self.queries if q.gains][:_MOST_QUERIES]:
            named = [
                f"{query.id} {shown(query.description, 40)}",
                f"{query.seconds:,.1f}",
                _seconds(query.task_ms),
                _range(*query.spared),
            ]
            for scan in [s for s in query.scans if s.high_ms >= query.task_ms / 100]:
                passed = f"{100 * scan.kept:.2g} %" if scan.kept >= 0.0001 else "< 0.01 %"
                table = f"{scan.table} ({scan.format})"
                cells.append([*named, table, f"{scan.rows:,}", passed, "; ".join(scan.filters)])
                named = [""] * len(named)
        return cells

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why other filters are not possible, with the number of queries."""
        return Counter(reason for q in self.queries for reason in q.reasons).most_common(_MOST_REASONS)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every query, those that would not gain too."""
        app, (low, high) = self.app, self.shares
        return {
            **{key: getattr(app, key) for key in ("id", "name", "spark", "events", "task_ms", "problems")},
            "path": str(app.path),
            "in_the_way": self.in_the_way,
            "spared": [round(low, 4), round(high, 4)],
            "queries": [q.as_dict() for q in self.queries],
        }


def main(paths: Sequence[str], to_json: str | None, to_html: str | None) -> int:
    """Reads the logs and prints what it finds; 0 if there was one that could be read."""
    advices: list[Advice] = []
    skipped: list[tuple[str, str]] = []
    for given in paths:
        try:
            logs = find(Path(given))
        except Unreadable as error:
            skipped.append((given, str(error)))
            continue
        for log in logs:
            try:
                advices.append(_advice(log))
            except (Unreadable, OSError) as error:
                skipped.append((str(log), str(error)))
    _progress(None)
    print("\n\n".join(_text(advice) for advice in advices))
    for path, reason in skipped:
        print(f"skipped {path}: {reason}", file=sys.stderr)
    for target, text in ((to_json, _json(advices, skipped)), (to_html, _html(advices, skipped))):
        if target:
            try:
                Path(target).write_text(text, encoding="utf-8")
            except OSError as error:
                print(f"{target} cannot be written: {error.strerror}", file=sys.stderr)
                return 1
    return 0 if advices else 1


def _advice(log: Path) -> Advice:
    queries: list[Query] = []
    unknown: list[int] = []

    def ended(execution: Execution) -> None:
        try:
            queries.append(judge(execution))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            unknown.append(execution.id)

    app = read(log, ended, _progress)
    if unknown:
        app.problems.append(f"queries whose plan is not as Spark writes it: {len(unknown):,}")
    return Advice(app, queries)


def _progress(events: int | None) -> None:
    if sys.stderr.isatty():
        print(
            "\r\033[K" + ("" if events is None else f"{events:,} events"), end="", file=sys.stderr, flush=True
        )


def _text(advice: Advice) -> str:
    parts = ["\n".join(advice.heads)]
    if advice.rows:
        parts.append(_analysis_text.table(_HEADER, advice.rows))
    if advice.reasons:
        lines = [f"  {count:5,}  {reason}" for reason, count in advice.reasons]
        parts.append("\n".join(["why other filters are not possible, and in how many queries:", *lines]))
    return "\n\n".join(parts)


def _json(advices: Sequence[Advice], skipped: Sequence[tuple[str, str]]) -> str:
    told = [{"path": path, "reason": reason} for path, reason in skipped]
    return json.dumps({"applications": [a.as_dict() for a in advices], "skipped": told}, indent=1) + "\n"


def _html(advices: Sequence[Advice], skipped: Sequence[tuple[str, str]]) -> str:
    parts = [f"<h1>{_TITLE}</h1>"]
    for advice in advices:
        first, *others = advice.heads
        parts += [f"<h2>{escape(first)}</h2>", *(f"<p>{escape(line)}</p>" for line in others)]
        parts.append(_html_table.table(_HEADER, advice.rows))
        counts = [[reason, f"{count:,}"] for reason, count in advice.reasons]
        parts.append(_html_table.table(("why other filters are not possible", "queries"), counts))
    parts += [f"<p>skipped {escape(path)}: {escape(reason)}</p>" for path, reason in skipped]
    return document(_TITLE, f'<style>{STYLE}</style><div class="sdf">{"".join(parts)}</div>')


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.1f} s"


def _range(low: float, high: float) -> str:
    return f"{100 * low:.0f} to {100 * high:.0f} %"

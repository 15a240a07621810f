"""Runs a query without collecting it and shows what its filters did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from ._commands import run_query
from ._errors import DynamicFiltersError, InvalidArgument
from ._report import QueryReport, by_tag
from ._session import session_of
from ._status import status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILTER_COLUMNS = ("filter", "producer", "columns", "state", "generation", "in force", "reason")
_SCAN_COLUMNS = (
    "scan",
    "table",
    "filters",
    "files skipped",
    "row groups skipped",
    "rows skipped",
    "rows output",
    "bytes read",
)


class Analysis(QueryReport):
    """One run of a query; made by `analyze(df)`. Prints, and shows in a notebook, as plan and tables.

    Attributes:
        query_id: Spark's SQL execution id.
        plan: the executed plan as text, with the filters in force.
        filters: the query's rows of `dynamic_filters()`.
        scans: the query's rows of `dynamic_filter_scans()`.
        seconds: wall-clock time of the run.
    """

    def __init__(self, report: QueryReport, seconds: float) -> None:
        super().__init__(report.query_id, report.plan, report.filters, report.scans)
        self.seconds = seconds

    def __str__(self) -> str:
        parts = [f"query {self.query_id}: {self.seconds:.3f} s", self.plan.rstrip()]
        parts += (
            [_text_table(_FILTER_COLUMNS, self._filter_rows())] if self.filters else ["no dynamic filters"]
        )
        if self.scans:
            parts.append(_text_table(_SCAN_COLUMNS, self._scan_rows()))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        counts = f"filters={len(self.filters)}, scans={len(self.scans)}"
        return f"Analysis(query_id={self.query_id}, {counts}, seconds={self.seconds:.3f})"

    def _repr_html_(self) -> str:
        tables = (
            _html_table(_FILTER_COLUMNS, self._filter_rows()) if self.filters else "<p>no dynamic filters</p>"
        )
        if self.scans:
            tables += _html_table(_SCAN_COLUMNS, self._scan_rows())
        return (
            f"<p>query {self.query_id}: {self.seconds:.3f} s</p>{tables}"
            f"<details><summary>plan</summary><pre>{escape(self.plan)}</pre></details>"
        )

    def _filter_rows(self) -> list[list[str]]:
        return [
            [
                _cell(f["filter_id"]),
                _cell(f["producer"]),
                ", ".join(f["columns"] or []),
                _cell(f["state"]),
                _cell(f["generation"]),
                _cell(f["expression"]),
                _cell(f["reason"]),
            ]
            for f in self.filters
        ]

    def _scan_rows(self) -> list[list[str]]:
        return [
            [
                _cell(s["scan_id"]),
                _cell(s["table_name"]),
                ", ".join(s["filter_ids"] or []),
                _files(s),
                _share(s["row_groups_pruned"], s["row_groups_total"]),
                _share(s["rows_pruned"], s["rows_total"]),
                _number(s["rows_output"]),
                _share(s["bytes_read"], s["bytes_total"]),
            ]
            for s in self.scans
        ]


def analyze(df: DataFrame) -> Analysis:
    """Runs `df` to its end without collecting it, and says what its dynamic filters did.

    Args:
        df: any batch DataFrame of a classic or Spark Connect session. It is planned anew, under the
            settings in force now.

    Returns:
        The plan with filters in force, the filters with their generations, and what each scan skipped.

    Raises:
        InvalidArgument: `df` is no batch DataFrame of Spark's.
        PluginNotLoaded: the plugin is not active; the message says what to add.
        DynamicFiltersError: the plugin kept no report of the run.
    """
    spark = session_of("analyze", df)
    if df.isStreaming:
        raise InvalidArgument(
            "analyze: expected a batch DataFrame, got a streaming one, which has no filters"
        )
    status(spark)
    with tagged(spark) as tag:
        start = time.perf_counter()
        run_query(df)
        seconds = time.perf_counter() - start
    report = by_tag(spark, tag)
    if report is None:
        raise DynamicFiltersError(
            "analyze: the plugin kept no report of this run; other queries of this session may have "
            "pushed it out: raise spark.dynamicFilters.report.retainedQueries"
        )
    return Analysis(report, seconds)


@contextmanager
def tagged(spark: SparkSession) -> Iterator[str]:
    """Tags all queries of the body with a fresh, unique tag, which it yields."""
    tag = f"dynamic-filters-{uuid.uuid4().hex}"
    spark.addTag(tag)
    try:
        yield tag
    finally:
        spark.removeTag(tag)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _files(scan: Any) -> str:
    """`4 of 8 (50 %), 1 unopened`: no row was read of the former; Spark counts as read what it opened."""
    share = _share(scan["files_pruned"], scan["files_total"])
    return f"{share}, {scan['files_unopened']:,} unopened" if scan["files_pruned"] else share


def _share(part: int | None, total: int | None) -> str:
    """`3 of 30 (10 %)`; a report that does not know one of them leaves the cell empty."""
    if part is None or total is None:
        return ""
    percent = f" ({_percent(part, total)} %)" if total else ""
    return f"{part:,} of {total:,}{percent}"


def _percent(part: int, total: int) -> str:
    """Rounded, but 0 and 100 only for none and all."""
    if 0 < part < total:
        rounded = round(100 * part / total)
        return {0: "< 1", 100: "> 99"}.get(rounded, str(rounded))
    return f"{100 * part / total:.0f}"


def _text_table(header: Sequence[str], rows: list[list[str]]) -> str:
    table = [list(header), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _html_table(header: Sequence[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

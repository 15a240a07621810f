"""An analysis as text, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _analysis as words
from . import _timeline
from ._plan import Operator, arrows, final, operators

if TYPE_CHECKING:
    from ._report import QueryReport

_BAR = 20  # characters


def render(report: QueryReport, seconds: float) -> str:
    """Summary, bars for each scan, plan, filters, time line, and filters that could have been."""
    parts = [f"query {report.query_id}: {seconds:.3f} s; {report.sentence}"]
    if report.scans:
        parts.append("\n".join(line for scan in report.scans for line in _bars(scan)))
    parts.append("\n".join([final(report.plan), *_ways(report)]))
    if made := words.filter_rows(report.filters):
        parts.append(table(words.FILTER_COLUMNS, made))
    if advised := words.advice(report.filters):
        parts.append("\n".join(advised))
    if line := _timeline.text(report.filters, report.times, report.duration_ms):
        parts.append("\n".join(line))
    if told := words.times(report.filters):
        parts.append("\n".join(told))
    if rejected := words.rejected_rows(report.filters):
        parts.append(words.REJECTED_TITLE + "\n" + table(words.REJECTED_COLUMNS, rejected))
    return "\n\n".join(parts)


def _bars(scan: Any) -> list[str]:
    """A bar for each part of a scan: how much of it was read."""
    lines = [words.scan_title(scan)]
    for name, share, text in words.scan_levels(scan):
        full = round(_BAR * share)
        lines.append(f"  {name:10} [{'#' * full + '.' * (_BAR - full)}] {text}")
    return lines + [f"  {note}" for note in words.scan_notes(scan)]


def _ways(report: QueryReport) -> list[str]:
    """`#2: BuildKeys --> DynamicFilterScan of hits (scan 7)`, a line for each filter and scan."""
    found = operators(report.plan)
    scanned = _scanned(report.scans, found)
    return [f"#{way.filter}: {found[way.source].name} --> {scanned[way.target]}" for way in arrows(found)]


def _scanned(scans: Sequence[Any], found: list[Operator]) -> dict[int, str]:
    """By position, each scan of the plan as its bars name it; without a report, what it wraps.

    The parts of a union may have the same filters: then the table that the plan names tells
    their scans apart, else their order.
    """
    named, left = {}, list(scans)
    for position, operator in enumerate(found):
        if not operator.is_scan:
            continue
        below = found[position + 1].text if position + 1 < len(found) else ""
        same = [scan for scan in left or scans if set(scan["filter_ids"] or []) == set(operator.filters)]
        if same:
            scan = next((s for s in same if str(s["table_name"]).rsplit(".", 1)[-1] in below), same[0])
            left = [other for other in left if other is not scan]
            named[position] = f"{operator.name} of {scan['table_name']} (scan {scan['scan_id']})"
        else:
            named[position] = f"{operator.name} of {below.split('[')[0].strip()}"
    return named


def table(header: Sequence[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell."""
    cells = [list(header), *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

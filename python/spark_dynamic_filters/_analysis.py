"""What an analysis says in words and numbers, whatever it is shown in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Parts of a scan that filters skip: the name, and the keys of what was skipped and of all.
LEVELS = (
    ("files", "files_pruned", "files_total"),
    ("row groups", "row_groups_pruned", "row_groups_total"),
    ("rows", "rows_pruned", "rows_total"),
)
FILTER_COLUMNS = ("filter", "producer", "columns", "state", "generation", "in force", "reason")
SCAN_COLUMNS = (
    "scan",
    "table",
    "filters",
    "files skipped",
    "row groups skipped",
    "rows skipped",
    "rows output",
    "bytes read",
)
_MOST_REASONS = 2


def summary(filters: Sequence[Any], scans: Sequence[Any]) -> str:
    """One sentence: what was read, what was skipped, how many filters did it, and why others did not."""
    if not filters:
        return "no dynamic filters"
    parts = []
    if read := _of(scans, "bytes_read", "bytes_total"):
        parts.append(f"read {percent(*read)} % of the bytes")
    skipped = []
    if files := _of(scans, "files_pruned", "files_total"):
        skipped.append(f"{files[0]:,} of {files[1]:,} files")
    if rows := _of(scans, "rows_pruned", "rows_total"):
        skipped.append(f"{percent(*rows)} % of the rows")
    if skipped:
        parts.append("skipped " + " and ".join(skipped))
    return "; ".join([", ".join(parts), _filters(filters)] if parts else [_filters(filters)])


def _of(scans: Sequence[Any], part: str, total: str) -> tuple[int, int] | None:
    """Sums over the scans that know both, None where there is nothing to tell a share of."""
    known = [s for s in scans if s[part] is not None and s[total] is not None]
    whole = sum(s[total] for s in known)
    return (sum(s[part] for s in known), whole) if whole else None


def _filters(filters: Sequence[Any]) -> str:
    rejected = [f for f in filters if f["state"] == "disabled"]
    ready = sum(1 for f in filters if f["state"] != "disabled" and (f["generation"] or 0) > 0)
    waiting = len(filters) - len(rejected) - ready
    parts = [f"{ready} {'filter' if ready == 1 else 'filters'} in force"]
    if waiting:
        parts.append(f"{waiting} without a value")
    text = ", ".join(parts)
    if rejected:
        reasons = list(dict.fromkeys(f["reason"] for f in rejected if f["reason"]))
        shown = "; ".join(reasons[:_MOST_REASONS]) + ("; ..." if len(reasons) > _MOST_REASONS else "")
        text += f", {len(rejected)} rejected" + (f": {shown}" if shown else "")
    return text


def times(filters: Sequence[Any]) -> list[str]:
    """Of each filter that took time: how long its build side took, and how long scans waited for it."""
    lines = []
    for f in filters:
        ready, waited = f["ready_ms"], f["wait_ms"]
        told = [f"complete {ready:,} ms after its build side began"] if ready is not None else []
        told += [f"scans were held back for it {waited:,} ms"] if waited else []
        if told:
            lines.append(f"filter {f['filter_id']}: " + ", ".join(told))
    return lines


def skipped_by(scan: Any) -> str:
    """What left out row groups, pages and rows: `statistics 7, page index 2`."""
    by = scan["pruned_by"] or {}
    return ", ".join(f"{name} {count:,}" for name, count in sorted(by.items(), key=lambda i: -i[1]) if count)


def filter_rows(filters: Sequence[Any]) -> list[list[str]]:
    """Cells under `FILTER_COLUMNS`."""
    return [
        [
            cell(f["filter_id"]),
            cell(f["producer"]),
            ", ".join(f["columns"] or []),
            cell(f["state"]),
            cell(f["generation"]),
            cell(f["expression"]),
            cell(f["reason"]),
        ]
        for f in filters
    ]


def scan_rows(scans: Sequence[Any]) -> list[list[str]]:
    """Cells under `SCAN_COLUMNS`."""
    return [
        [
            cell(s["scan_id"]),
            cell(s["table_name"]),
            ", ".join(s["filter_ids"] or []),
            _files(s),
            share(s["row_groups_pruned"], s["row_groups_total"]),
            share(s["rows_pruned"], s["rows_total"]),
            number(s["rows_output"]),
            share(s["bytes_read"], s["bytes_total"]),
        ]
        for s in scans
    ]


def cell(value: Any) -> str:
    """Empty for None."""
    return "" if value is None else str(value)


def number(value: int | None) -> str:
    """With separators, empty for None."""
    return "" if value is None else f"{value:,}"


def _files(scan: Any) -> str:
    """`4 of 8 (50 %), 1 unopened`: no row was read of the former; Spark counts as read what it opened."""
    text = share(scan["files_pruned"], scan["files_total"])
    return f"{text}, {scan['files_unopened']:,} unopened" if scan["files_pruned"] else text


def share(part: int | None, total: int | None) -> str:
    """`3 of 30 (10 %)`; a report that does not know one of them leaves the cell empty."""
    if part is None or total is None:
        return ""
    of = f" ({percent(part, total)} %)" if total else ""
    return f"{part:,} of {total:,}{of}"


def percent(part: int, total: int) -> str:
    """Rounded, but 0 and 100 only for none and all."""
    if 0 < part < total:
        rounded = round(100 * part / total)
        return {0: "< 1", 100: "> 99"}.get(rounded, str(rounded))
    return f"{100 * part / total:.0f}"

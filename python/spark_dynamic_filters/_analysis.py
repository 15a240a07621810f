"""What an analysis says in words and numbers, whatever it is shown in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

# Parts of a scan: the name, the keys of what was skipped or read and of all, and which of these it was.
_LEVELS = (
    ("files", "files_pruned", "files_total", "skipped"),
    ("row groups", "row_groups_pruned", "row_groups_total", "skipped"),
    ("rows", "rows_pruned", "rows_total", "skipped"),
    ("bytes", "bytes_read", "bytes_total", "read"),
)
FILTER_COLUMNS = ("filter", "producer", "columns", "state", "generation", "in force", "reason")
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


def advice(filters: Sequence[Any]) -> list[str]:
    """Each reason that the user can do something about, and below it what."""
    advised = {f["reason"]: f["advice"] for f in filters if f["advice"]}
    told = [(reason, what) for reason, what in advised.items() if not what.startswith("nothing")]
    return [line for reason, what in told for line in (reason, f"    {what}")]


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


def scan_title(scan: Any) -> str:
    """Which scan it is, of which table, with which filters."""
    filters = ", ".join(f"#{f}" for f in scan["filter_ids"] or [])
    return f"scan {scan['scan_id']} of {scan['table_name']}, filters {filters or 'none'}"


def scan_levels(scan: Any) -> Iterator[tuple[str, float, str]]:
    """Each part of a scan that is known: its name, the share that was skipped or read, and both in words."""
    for name, part, total, done in _LEVELS:
        if scan[part] is not None and scan[total]:
            text = f"{scan[part]:,} of {scan[total]:,} ({percent(scan[part], scan[total])} %) {done}"
            # No row was read of the latter; Spark counts as read what it opened.
            unopened = f", {scan['files_unopened']:,} never opened" if name == "files" and scan[part] else ""
            yield name, scan[part] / scan[total], text + unopened


def scan_notes(scan: Any) -> list[str]:
    """How many rows came out, and what left out row groups, pages and rows."""
    notes = [f"{'output':10} {scan['rows_output']:,} rows"] if scan["rows_output"] is not None else []
    by = {name: count for name, count in (scan["pruned_by"] or {}).items() if count}
    parts = [f"{name} {by[name]:,}" for name in sorted(by, key=by.__getitem__, reverse=True)]
    return [*notes, "skipped by " + ", ".join(parts)] if parts else notes


def filter_rows(filters: Sequence[Any]) -> list[list[str]]:
    """Cells under `FILTER_COLUMNS`."""
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
        for f in filters
    ]


def _cell(value: Any) -> str:
    """Empty for None."""
    return "" if value is None else str(value)


def percent(part: int, total: int) -> str:
    """Rounded, but 0 and 100 only for none and all."""
    if 0 < part < total:
        rounded = round(100 * part / total)
        return {0: "< 1", 100: "> 99"}.get(rounded, str(rounded))
    return f"{100 * part / total:.0f}"

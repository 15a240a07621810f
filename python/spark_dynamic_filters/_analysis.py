"""What an analysis says in words and numbers, whatever it is shown in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

# Parts of a scan that bars show, as the tab of Spark's UI does: the name, the key of what was read or skipped
# and that of the total.
_LEVELS = (
    ("bytes", "bytes_read", "bytes_total"),
    ("files", "files_pruned", "files_total"),
    ("row groups", "row_groups_pruned", "row_groups_total"),
    ("rows", "rows_pruned", "rows_total"),
)
FILTER_COLUMNS = ("filter", "producer", "columns", "state", "generation", "in force", "reason")
REJECTED_TITLE = "Possible, but not used:"
REJECTED_COLUMNS = ("producer", "columns", "reason", "what to do")


def is_rejected(f: Any) -> bool:
    """Whether the planner made no filter of it."""
    return f["filter_id"] is None


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
    """Each part of a scan that is known: its name, the share that was read, and both in words."""
    for name, part, total in _LEVELS:
        if scan[part] is not None and scan[total]:
            whole = scan[total]
            read = max(0, min(whole, scan[part] if part.endswith("_read") else whole - scan[part]))
            text = f"{read:,} of {whole:,} ({percent(read, whole)} %) read"
            if name == "files" and read < whole:
                # Spark counts as read what it opened.
                text += f", {scan['files_unopened']:,} never opened"
            yield name, read / whole, text


def scan_notes(scan: Any) -> list[str]:
    """How many rows came out, and what left out row groups, pages and rows."""
    notes = [f"{'output':10} {scan['rows_output']:,} rows"] if scan["rows_output"] is not None else []
    by = {name: count for name, count in (scan["pruned_by"] or {}).items() if count}
    parts = [f"{name} {by[name]:,}" for name in sorted(by, key=by.__getitem__, reverse=True)]
    return [*notes, "skipped by " + ", ".join(parts)] if parts else notes


def filter_rows(filters: Sequence[Any]) -> list[list[str]]:
    """Cells under `FILTER_COLUMNS`; without the filters that the planner rejected."""
    keys = ("filter_id", "producer", "columns", "state", "generation", "expression", "reason")
    return [[_cell(f[key]) for key in keys] for f in filters if not is_rejected(f)]


def rejected_rows(filters: Sequence[Any]) -> list[list[str]]:
    """Cells under `REJECTED_COLUMNS`."""
    keys = ("producer", "columns", "reason", "advice")
    return [[_cell(f[key]) for key in keys] for f in filters if is_rejected(f)]


def advice(filters: Sequence[Any]) -> list[str]:
    """Each reason of a filter that the user can do something about, and below it what."""
    advised = {f["reason"]: f["advice"] for f in filters if f["advice"] and not is_rejected(f)}
    told = [(reason, what) for reason, what in advised.items() if not what.startswith("nothing")]
    return [line for reason, what in told for line in (reason, f"    {what}")]


def _cell(value: Any) -> str:
    """Empty for None."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def percent(part: int, total: int) -> str:
    """Rounded, but 0 and 100 only for none and all."""
    if 0 < part < total:
        rounded = round(100 * part / total)
        return {0: "< 1", 100: "> 99"}.get(rounded, str(rounded))
    return f"{100 * part / total:.0f}"

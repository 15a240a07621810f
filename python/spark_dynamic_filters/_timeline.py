"""The filters of a query on a time line of text, beside the tab of Spark's UI, which draws one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WIDTH = 60  # characters
LEGEND = "- not there yet  ~ a scan is held back for it  = in force  o the first scan that has it starts"
_MOST_TICKS = 6


def text(filters: Sequence[Any], times: Sequence[Any], duration: int | None) -> list[str]:
    """A line for each filter below a scale and a legend; nothing where no times are known."""
    known = {t["filter_id"]: t for t in times}
    found = [f for f in filters if f["filter_id"] in known]
    if not found or not duration:
        return []
    names = [f"#{f['filter_id']} {', '.join(f['columns'] or [])}" for f in found]
    width = max(map(len, names))
    head = " " * (width + 2)
    # Round times on the scale: 1, 2 or 5 and zeros apart.
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    step = next(s for s in steps if duration // s < _MOST_TICKS)
    for tick in range(0, duration + 1, step):
        at = width + 2 + tick * _WIDTH // duration
        if tick == 0 or at > len(head):
            head = f"{head:{at}}{tick:,}"
    head += " ms"
    lines = [
        f"{name:{width}}  {_line(f, known[f['filter_id']], duration)}".rstrip()
        for name, f in zip(names, found, strict=True)
    ]
    return [head, *lines, LEGEND]


def _line(f: Any, times: Any, duration: int) -> str:
    """One filter, by its row and its times in milliseconds from the query's start."""

    def at(millis: int) -> int:
        return min(_WIDTH - 1, max(0, millis * _WIDTH // duration))

    is_disabled = f["state"] == "disabled"
    registered = at(times["registered_ms"] or 0)
    ready = None if is_disabled else times["ready_ms"]
    cells = [" "] * _WIDTH
    last = _WIDTH if ready is None else at(ready)
    cells[registered:last] = "-" * (last - registered)
    if ready is not None:
        if f["wait_ms"]:
            first = at(ready - f["wait_ms"])
            cells[first:last] = "~" * (last - first)
        cells[last:] = "=" * (_WIDTH - last)
    if is_disabled:
        cells[registered + 1 :] = " " * (_WIDTH - registered - 1)
    if times["used_ms"] is not None:
        cells[at(times["used_ms"])] = "o"
    return "".join(cells)

"""The filters of a query on a time line of text, beside the tab of Spark's UI, which draws one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 60  # characters
LEGEND = "- not there yet  ~ a scan is held back for it  = in force  o the first scan that has it starts"
_MOST_TICKS = 6


@dataclass(frozen=True)
class Span:
    """One filter, in milliseconds from the query's start; None for what did not happen.

    Attributes:
        number: the filter's id.
        columns: that it filters, joined.
        waited: how long a scan was held back for it, up to `ready`.
        is_disabled: whether it came to nothing.
    """

    number: str
    columns: str
    registered: int
    ready: int | None
    used: int | None
    waited: int
    is_disabled: bool


def spans(filters: Sequence[Any], times: Sequence[Any]) -> list[Span]:
    """Of the filters whose times are known, in the order of `filters`."""
    known = {t["filter_id"]: t for t in times}
    return [
        Span(
            f["filter_id"],
            ", ".join(f["columns"] or []),
            known[f["filter_id"]]["registered_ms"] or 0,
            None if f["state"] == "disabled" else known[f["filter_id"]]["ready_ms"],
            known[f["filter_id"]]["used_ms"],
            f["wait_ms"] or 0,
            f["state"] == "disabled",
        )
        for f in filters
        if f["filter_id"] in known
    ]


def ticks(length: int) -> list[int]:
    """Round times on the axis of a query of so many milliseconds: 1, 2 or 5 and zeros apart."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    step = next(s for s in steps if length // s < _MOST_TICKS)
    return list(range(0, length + 1, step))


def text(filters: Sequence[Any], times: Sequence[Any], duration: int | None) -> list[str]:
    """A line for each filter below a scale and a legend; nothing where no times are known."""
    found = spans(filters, times)
    if not found or not duration:
        return []
    names = [f"#{s.number} {s.columns}" for s in found]
    width = max(map(len, names))
    head = " " * (width + 2)
    for tick in ticks(duration):
        at = width + 2 + tick * _WIDTH // duration
        if tick == 0 or at > len(head):
            head = f"{head:{at}}{tick:,}"
    head += " ms"
    lines = [
        f"{name:{width}}  {_line(span, duration)}".rstrip() for name, span in zip(names, found, strict=True)
    ]
    return [head, *lines, LEGEND]


def _line(span: Span, duration: int) -> str:
    def at(millis: int) -> int:
        return min(_WIDTH - 1, max(0, millis * _WIDTH // duration))

    cells = [" "] * _WIDTH
    last = _WIDTH if span.ready is None else at(span.ready)
    cells[at(span.registered) : last] = "-" * (last - at(span.registered))
    if span.ready is not None:
        if span.waited:
            first = at(span.ready - span.waited)
            cells[first:last] = "~" * (last - first)
        cells[last:] = "=" * (_WIDTH - last)
    if span.is_disabled:
        cells[at(span.registered) + 1 :] = " " * (_WIDTH - at(span.registered) - 1)
    if span.used is not None:
        cells[at(span.used)] = "o"
    return "".join(cells)

"""The filters of a query on a time line: when each was planned, was there, and was used first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_WIDTH = 60  # characters
LEGEND = "- not there yet  ~ a scan is held back for it  = in force  o the first scan that has it starts"

# Of the drawing, in pixels.
_LABELS, _SCALE, _LINE, _TICKS = 190, 700, 20, 5
_MOST_CHARACTERS = 30


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


def text(filters: Sequence[Any], times: Sequence[Any], duration: int | None) -> list[str]:
    """A line for each filter below a scale and a legend; nothing where no times are known."""
    found = spans(filters, times)
    if not found or not duration:
        return []
    names = [f"#{s.number} {s.columns}"[:_MOST_CHARACTERS] for s in found]
    width = max(map(len, names))
    end = f"{duration:,} ms"
    head = " " * width + "  0" + end.rjust(_WIDTH - 1)
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


def svg(filters: Sequence[Any], times: Sequence[Any], duration: int | None, colors: Sequence[str]) -> str:
    """The same as a drawing, with the exact times as tool tips; empty where no times are known."""
    found = spans(filters, times)
    if not found or not duration:
        return ""
    height = _LINE * (len(found) + 1) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + _SCALE + 60}" height="{height}" '
        'role="img" aria-label="time line of the filters" font-family="sans-serif" font-size="11">'
    ]
    for i in range(_TICKS + 1):
        x, y = _LABELS + _SCALE * i / _TICKS, _LINE * len(found) + 6
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 14}" fill="#6b7280">{duration * i // _TICKS:,} ms</text>')
    for i, span in enumerate(found):
        parts += _drawn(span, _LINE * i + _LINE // 2 + 4, duration, colors[int(span.number) % len(colors)])
    legend = (
        "Thin line: the filter is not there yet. Orange: a scan is held back for it. Bar: it is in "
        "force. Ring: the first scan starts that has it from its first row on."
    )
    return "".join([*parts, "</svg>", f"<div><small>{legend}</small></div>"])


def _drawn(span: Span, y: int, duration: int, color: str) -> Iterator[str]:
    def x(millis: int) -> float:
        return _LABELS + _SCALE * min(max(millis, 0), duration) / duration

    def bar(start: int, end: int, height: int, fill: str) -> str:
        width = max(1.0, x(end) - x(start))
        return (
            f'<rect x="{x(start):.1f}" y="{y - height // 2}" width="{width:.1f}" height="{height}" '
            f'fill="{fill}"/>'
        )

    def told(millis: int | None) -> str:
        return "never" if millis is None else f"after {millis:,} ms"

    name = escape(f"#{span.number} {span.columns}"[:_MOST_CHARACTERS])
    about = (
        f"registered {told(span.registered)}, ready {told(span.ready)}, first used {told(span.used)}, "
        f"held back {span.waited:,} ms"
    )
    yield f'<g><title>{about}</title><text x="0" y="{y + 4}" fill="{color}">{name}</text>'
    if span.is_disabled:
        yield bar(span.registered, span.registered, 8, "#9ca3af")
    else:
        yield bar(span.registered, duration if span.ready is None else span.ready, 2, color)
    if span.ready is not None:
        if span.waited:
            yield bar(span.ready - span.waited, span.ready, 4, "#f59e0b")
        yield bar(span.ready, duration, 10, color)
    if span.used is not None:
        yield f'<circle cx="{x(span.used):.1f}" cy="{y}" r="4" fill="#fff" stroke="{color}" '
        yield 'stroke-width="2"/>'
    yield "</g>"

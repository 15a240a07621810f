"""An analysis as HTML, for notebooks and files: no script, nothing from elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _analysis as words
from . import _timeline
from ._html_table import table
from ._plan import Operator, arrows, operators

if TYPE_CHECKING:
    from ._report import QueryReport

_COLORS = ("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#a16207")
STYLE = """
.sdf { font-family: system-ui, sans-serif; font-size: 13px; color: #1f2937; background: #fff;
  padding: 8px; }
.sdf table { border-collapse: collapse; margin: 8px 0; }
.sdf th, .sdf td { border: 1px solid #d1d5db; padding: 2px 8px; text-align: left; color: inherit; }
.sdf .bar { display: inline-block; width: 200px; height: 10px; background: #cbd5e1; }
.sdf .bar span { display: block; height: 10px; background: #15803d; }
.sdf pre { white-space: pre; overflow-x: auto; }
"""
# Of the drawing, in pixels.
_LINE, _INDENT, _CHARACTER, _GUTTER = 20, 14, 7.2, 26
_MOST_CHARACTERS = 90


def render(report: QueryReport, seconds: float) -> str:
    """A fragment: summary, bars, drawing of the plan, filters, time line."""
    parts = [
        f"<style>{STYLE}</style>",
        f"<p><b>query {report.query_id}: {seconds:.3f} s; {escape(report.sentence)}</b></p>",
        *(_bars(scan) for scan in report.scans),
        draw(report.plan),
    ]
    if made := words.filter_rows(report.filters):
        parts.append(table(words.FILTER_COLUMNS, made))
    lines = _timeline.text(report.filters, report.times, report.duration_ms) + words.times(report.filters)
    lines += words.advice(report.filters)
    if lines:
        parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>")
    if rejected := words.rejected_rows(report.filters):
        parts.append(f"<p>{words.REJECTED_TITLE}</p>" + table(words.REJECTED_COLUMNS, rejected))
    parts.append(f"<details><summary>plan</summary><pre>{escape(report.plan)}</pre></details>")
    return f'<div class="sdf">{"".join(parts)}</div>'


class Page(ABC):
    """What a notebook shows, and what is written as a document of its own."""

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _repr_html_(self) -> str: ...

    def to_html(self, path: str | Path) -> None:
        """Writes what a notebook shows as a document of its own, with plans drawn.

        Args:
            path: of the file; an existing one is replaced.

        Raises:
            OSError: it cannot be written.
        """
        Path(path).write_text(document(self._title(), self._repr_html_()), encoding="utf-8")


def document(title: str, body: str) -> str:
    """A whole document."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f"<body>{body}</body></html>\n"
    )


def _bars(scan: Any) -> str:
    rows = ""
    for name, share, text in words.scan_levels(scan):
        bar = f'<span class="bar"><span style="width:{100 * share:.1f}%"></span></span>'
        rows += f"<tr><td>{name}</td><td>{bar}</td><td>{text}</td></tr>"
    notes = "".join(f"<div>{escape(note)}</div>" for note in words.scan_notes(scan))
    return f"<div>{escape(words.scan_title(scan))}</div><table>{rows}</table>{notes}"


def draw(plan: str) -> str:
    """The plan as SVG, an operator a line, with an arrow for each filter from its maker to its scans."""
    found = operators(plan)
    if not found:
        return ""
    labels = [_label(o) for o in found]
    ways = arrows(found)
    right = max(_INDENT * o.depth + _CHARACTER * len(label) for o, label in zip(found, labels, strict=True))
    width, height = right + _GUTTER * (len(ways) + 1) + 40, _LINE * (len(found) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img" '
        'aria-label="plan with dynamic filters" font-family="monospace" font-size="11">'
    ]
    for i, (o, label) in enumerate(zip(found, labels, strict=True)):
        weight = ' font-weight="bold"' if o.filters else ""
        color = _color(o.filters[0]) if o.filters else "#1f2937"
        x, y = _INDENT * o.depth + 2, _LINE * (i + 1)
        parts.append(f'<text x="{x}" y="{y}" fill="{color}"{weight}>{escape(label)}</text>')
    for n, way in enumerate(ways):
        ends = [_end(found, labels, i) for i in (way.source, way.target)]
        parts.append(_arrow(ends[0], ends[1], right + _GUTTER * (n + 1), way.filter))
    return "".join([*parts, "</svg>"])


def _label(o: Operator) -> str:
    text = o.text.split(" Batched:")[0]
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _color(number: str) -> str:
    return _COLORS[int(number) % len(_COLORS)]


def _end(found: list[Operator], labels: list[str], i: int) -> tuple[float, float]:
    """Behind the text of an operator."""
    return _INDENT * found[i].depth + _CHARACTER * len(labels[i]) + 8, _LINE * (i + 1) - 4


def _arrow(start: tuple[float, float], end: tuple[float, float], x: float, number: str) -> str:
    color = _color(number)
    line = f"M{start[0]:.0f},{start[1]} H{x:.0f} V{end[1]} H{end[0]:.0f}"
    tip = f"M{end[0]:.0f},{end[1]} l7,-4 v8 z"
    return (
        f'<path d="{line}" fill="none" stroke="{color}" stroke-width="1.5"/><path d="{tip}" fill="{color}"/>'
        f'<text x="{x + 3:.0f}" y="{(start[1] + end[1]) / 2:.0f}" fill="{color}">#{escape(number)}</text>'
    )

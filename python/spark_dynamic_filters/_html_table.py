"""A table as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(header: Sequence[str], rows: list[list[str]]) -> str:
    """A plain table; everything is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

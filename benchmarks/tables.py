"""Pieces of a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from results import Figure
from runs import Skipped


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def environment(values: dict[str, Any]) -> str:
    """A sentence that says where the benchmark ran."""
    return ", ".join(f"{key} {value}" for key, value in values.items()) + "."


def figures(found: Sequence[Figure]) -> str:
    """The figures to reach, and what was seen."""
    rows = [(figure.what, figure.target, figure.seen, figure.met) for figure in found]
    return table(("figure", "target", "seen", "met"), rows)


def skipped(what: Skipped | None) -> tuple[str, str]:
    """Row groups and rows that were pruned, for two columns."""
    if what is None:
        return "", ""
    groups = f"{what.row_groups_pruned:,} of {what.row_groups_total:,}"
    if not what.rows_total:
        return groups, "0"
    return groups, f"{what.rows_pruned:,} ({100 * what.rows_pruned / what.rows_total:.2f} %)"


def number(value: float | None, digits: int) -> str:
    """A number, or nothing where it was not measured."""
    return "" if value is None else f"{value:.{digits}f}"

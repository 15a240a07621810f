"""Numbers from runs: medians, ratios of pairs, and what can be said about them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from runs import FIRST, ORACLE, REPEATED, STOCK, Skipped

TARGET_MILLIONS = 32  # the figures to reach are meant at this size


@dataclass
class Cell:
    """One query on one table: the seconds of each variant, and what filters skipped."""

    query: str
    layout: str
    millions: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)

    def add(self, variant: str, seconds: float, skipped: Skipped | None) -> None:
        """Adds a run."""
        self.seconds.setdefault(variant, []).append(seconds)
        if skipped is not None:
            self.skipped[variant] = skipped

    def median(self, variant: str) -> float | None:
        """Seconds, or None where the variant was not measured."""
        runs = self.seconds.get(variant)
        return median(runs) if runs else None

    def ratio(self, above: str, below: str) -> float | None:
        """The ratio of two variants' medians."""
        numerator, denominator = self.median(above), self.median(below)
        return numerator / denominator if numerator is not None and denominator else None

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        return {
            "query": self.query,
            "layout": self.layout,
            "rows": self.millions * 1_000_000,
            "seconds": self.seconds,
            "median_seconds": {variant: self.median(variant) for variant in self.seconds},
            "stock_over_repeated": self.ratio(STOCK, REPEATED),
            "stock_over_first": self.ratio(STOCK, FIRST),
            "repeated_over_oracle": self.ratio(REPEATED, ORACLE),
            "skipped": {variant: skipped.as_dict() for variant, skipped in self.skipped.items()},
        }


@dataclass
class Pairs:
    """Seconds of two variants in turn; their ratio is taken pair by pair, so that slow drift cancels."""

    name: str
    why: str
    table: str
    base: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    skipped: Skipped | None = None

    @property
    def ratios(self) -> list[float]:
        """other / base, sorted."""
        return sorted(other / base for base, other in zip(self.base, self.other, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true median lies with at least 95 % confidence, whatever the distribution."""
        ratios = self.ratios
        n = len(ratios)
        outside = 0  # how many of the smallest, and of the largest, may be left out
        while 2 * sum(math.comb(n, i) for i in range(outside + 1)) / 2**n <= 0.05:
            outside += 1
        low = max(outside - 1, 0)
        return ratios[low], ratios[n - 1 - low]

    def verdict(self, limit: float) -> str:
        """Whether the ratio is at most ``limit``, as far as this many pairs can tell."""
        low, high = self.interval
        if high <= limit:
            return "yes"
        return "no" if low > limit else "undecided"

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        return {
            "name": self.name,
            "why": self.why,
            "table": self.table,
            "stock_seconds": self.base,
            "other_seconds": self.other,
            "ratio": self.ratio,
            "interval_95": self.interval,
            "skipped": self.skipped.as_dict() if self.skipped else None,
        }


@dataclass(frozen=True)
class Figure:
    """A figure to reach, and what was seen."""

    what: str
    target: str
    seen: str
    met: str


def figures(cells: Sequence[Cell], useless: Sequence[Pairs]) -> list[Figure]:
    """The figures to reach, as far as these measurements hold them: q23, steady state."""
    found = []
    by_table = {(cell.layout, cell.millions): cell for cell in cells if cell.query == "q23"}
    sizes = sorted({size for _, size in by_table})
    for layout in dict.fromkeys(layout for layout, _ in by_table):
        smallest, largest = by_table[layout, sizes[0]], by_table[layout, sizes[-1]]
        ours = largest.median(REPEATED)
        if ours is None:
            continue
        rows = f"{layout} files, {largest.millions}M rows"
        faster = largest.ratio(STOCK, REPEATED)
        found.append(_at_least(f"q23: times faster than stock, {rows}", 15, faster, largest.millions))
        if smallest is not largest and (small := smallest.median(REPEATED)):
            growth = ours / small
            what = f"q23: cost relative to {smallest.millions}M rows, {rows}"
            found.append(_at_most(what, 2, growth, largest.millions))
        if layout == "int64":
            against = largest.ratio(REPEATED, ORACLE)
            found.append(
                _at_most(f"q23: cost relative to the oracle, {rows}", 1.15, against, largest.millions)
            )
        other = by_table.get(("int64", largest.millions)) if layout == "int96" else None
        if other and (theirs := other.median(REPEATED)):  # a report is written after each table
            against = ours / theirs
            found.append(_at_most(f"q23: cost relative to int64 files, {rows}", 3, against, largest.millions))
    for pairs in useless:
        low, high = pairs.interval
        seen = f"{pairs.ratio:.3f} ({low:.3f} to {high:.3f})"
        found.append(
            Figure(f"{pairs.name}: cost relative to stock", "at most 1.03", seen, pairs.verdict(1.03))
        )
    return found


def _at_least(what: str, target: float, seen: float | None, millions: int) -> Figure:
    return _figure(what, f"at least {target:g}", seen, millions, lambda ratio: ratio >= target)


def _at_most(what: str, target: float, seen: float | None, millions: int) -> Figure:
    return _figure(what, f"at most {target:g}", seen, millions, lambda ratio: ratio <= target)


def _figure(
    what: str, target: str, seen: float | None, millions: int, met: Callable[[float], bool]
) -> Figure:
    if seen is None:
        return Figure(what, target, "", "not measured")
    answer = "yes" if met(seen) else "no"
    if millions < TARGET_MILLIONS:
        answer += f" (target is for {TARGET_MILLIONS}M rows)"
    return Figure(what, target, f"{seen:.2f}", answer)


def comparable_plan(plan: str) -> str:
    """A plan without what differs from one session to the next: ids of expressions and nodes."""
    return re.sub(r"#\d+L?|plan_id=\d+|id=#?\d+", "#", plan)

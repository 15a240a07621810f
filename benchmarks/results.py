"""Numbers from runs: rounds, medians, ratios of pairs, and what can be said about them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, TypeVar

from runs import Skipped

T = TypeVar("T")


def rounds(variants: Sequence[T], count: int) -> Iterator[tuple[int, Sequence[T]]]:
    """The variants by turns, ``count`` times; each round begins with another: none is always the first."""
    for i in range(count):
        yield i, rotated(variants, i)


def rotated(variants: Sequence[T], by: int) -> Sequence[T]:
    """The variants in the same order, beginning with another one."""
    turn = by % len(variants)
    return [*variants[turn:], *variants[:turn]]


class Timed:
    """The seconds of each variant of a query, round by round."""

    seconds: dict[str, list[float]]

    def add(self, variant: str, seconds: float) -> None:
        """Adds a run."""
        self.seconds.setdefault(variant, []).append(seconds)

    def median(self, variant: str) -> float | None:
        """Seconds, or None where the variant was not measured."""
        values = self.seconds.get(variant)
        return median(values) if values else None

    def medians(self) -> dict[str, float | None]:
        """Seconds of all variants that were measured."""
        return {variant: self.median(variant) for variant in self.seconds}

    def ratio(self, above: str, below: str) -> float | None:
        """The ratio of two variants' medians."""
        numerator, denominator = self.median(above), self.median(below)
        return numerator / denominator if numerator is not None and denominator else None

    def text(self) -> str:
        """All medians, in the order in which they were measured first."""
        return ", ".join(f"{variant} {self.median(variant):.3f} s" for variant in self.seconds)


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

    def verdict(self, limit: float, least: int = 1) -> str:
        """Whether the ratio is at most ``limit``, as far as this many pairs can tell; ``least`` at least."""
        low, high = self.interval
        if high <= limit and len(self.base) >= least:
            return "yes"
        return "no" if low > limit and len(self.base) >= least else "undecided"

    def text(self) -> str:
        """Ratio and interval."""
        low, high = self.interval
        return f"{self.ratio:.3f} ({low:.3f} to {high:.3f})"

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

    @classmethod
    def of_ratio(
        cls,
        what: str,
        relation: Literal["at least", "at most"],
        target: float,
        seen: float | None,
        millions: float,
        meant_for: int,
    ) -> Figure:
        """Of a ratio that was measured with so many ``millions`` of rows, or not at all."""
        stated = f"{relation} {target:g}"
        if seen is None:
            return cls(what, stated, "", "not measured")
        met = "yes" if (seen >= target if relation == "at least" else seen <= target) else "no"
        if millions < meant_for:
            met += f" (target is for {meant_for}M rows)"
        return cls(what, stated, f"{seen:.2f}", met)

    @classmethod
    def of_pairs(cls, what: str, limit: float, pairs: Pairs, least: int = 1) -> Figure:
        """Of a ratio that is to be at most ``limit``."""
        return cls(what, f"at most {limit:g}", pairs.text(), pairs.verdict(limit, least))

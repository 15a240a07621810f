"""Rounds of variants by turns, and what their seconds say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from processor import UNITS, WALL

T = TypeVar("T")

STOCK, OURS, ORACLE, BLOOM, FIRST, REPEATED = "stock", "ours", "oracle", "bloom", "first", "repeated"
AGAIN, OURS_AGAIN = "stock again", "ours again"
#: Variants that are runs of another one. Both sides run equally often: a JVM compiles more of what runs more.
SAME = {AGAIN: STOCK, OURS_AGAIN: OURS}


def rotated(variants: Sequence[T], by: int) -> Sequence[T]:
    """The variants in the same order, beginning with another one: none is always the first."""
    turn = by % len(variants)
    return [*variants[turn:], *variants[:turn]]


@dataclass(frozen=True)
class Pairs:
    """Seconds of two variants, round by round: slow drift of the machine cancels in their ratios."""

    base: Sequence[float]
    other: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """other / base, sorted; one ratio of medians if they have not run equally often."""
        if len(self.base) != len(self.other):
            return [median(self.other) / median(self.base)]
        return sorted(other / base for base, other in zip(self.base, self.other, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the median. It assumes no distribution (order statistics)."""
        ratios, outside = self.ratios, 0
        while 2 * sum(math.comb(len(ratios), i) for i in range(outside + 1)) / 2 ** len(ratios) <= 0.05:
            outside += 1
        low = max(outside - 1, 0)
        return ratios[low], ratios[len(ratios) - 1 - low]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.ratio:.3f}" + (f" ({low:.3f} to {high:.3f})" if len(self.ratios) > 1 else "")


@dataclass
class Measured:
    """What was measured of a case.

    Attributes:
        seconds: of each round, by unit and variant.
        skipped: what the scans of the last round left out, by variant.
        filters: what became of the last round's filters.
        notes: other things that are worth a line, by what they are.
        problems: what went wrong, by variant.
    """

    part: str
    name: str
    table: str = ""
    why: str = ""
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=lambda: {unit: {} for unit in UNITS})
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)
    filters: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, variant: str, used: Mapping[str, float]) -> None:
        """Adds a run: seconds by unit."""
        for unit, value in used.items():
            self.seconds.setdefault(unit, {}).setdefault(variant, []).append(value)

    @property
    def variants(self) -> list[str]:
        """Those measured, without second runs of the same."""
        return [variant for variant in self.seconds[WALL] if variant not in SAME]

    @property
    def units(self) -> list[str]:
        """Those measured."""
        return [unit for unit in UNITS if self.seconds.get(unit)]

    @property
    def rounds(self) -> int:
        """How often each variant was measured, at least."""
        return min(map(len, self.seconds[WALL].values()), default=0)

    def runs(self, unit: str, variant: str) -> list[float]:
        """All seconds of a variant, those of its second runs included if all variants have some."""
        measured = self.seconds[unit]
        same = [again for again, of in SAME.items() if of == variant and SAME.keys() <= measured.keys()]
        return [seconds for name in (variant, *same) for seconds in measured.get(name, [])]

    def median(self, unit: str, variant: str) -> float:
        """Seconds."""
        return median(self.runs(unit, variant))

    def pairs(self, unit: str, variant: str, base: str) -> Pairs:
        """Of a variant over the base. Of `AGAIN`: A/A, stock over itself."""
        if variant == AGAIN:
            return Pairs(self.seconds[unit][STOCK], self.seconds[unit][AGAIN])
        return Pairs(
            self.runs(unit, base) if variant == OURS else self.seconds[unit][base], self.runs(unit, variant)
        )


def rows_differ(expected: Sequence[Any], actual: Sequence[Any]) -> str | None:
    """Whether two answers differ; rows in any order, floats to nine digits, as sums depend on their order."""
    return None if _sorted(expected) == _sorted(actual) else "the rows differ from stock's"


def counts_differ(expected: Sequence[Any], actual: Sequence[Any]) -> str | None:
    """Whether two answers have another number of rows: engines have other types for the same values."""
    same = len(expected) == len(actual)
    return None if same else f"{len(actual)} rows in place of {len(expected)}"


def _sorted(rows: Sequence[Any]) -> list[str]:
    return sorted(str([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)

"""Stock and ours by turns, each twice a round: what a query costs, beside what chance makes of it.

Both run equally often, because a JVM has compiled more of what ran more often: with two runs of stock a round
and one of ours, q45 and q68 of TPC-DS took 1.6 times as long with filters, with two each 1.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from join_queries import OURS
from processor import UNITS
from results import Pairs
from runs import STOCK

AGAIN, OURS_AGAIN = "stock again", "ours again"
VARIANTS = (STOCK, OURS, AGAIN, OURS_AGAIN)
WITH_FILTERS = (OURS, OURS_AGAIN)
#: Runs of the same.
_RUNS = {STOCK: (STOCK, AGAIN), OURS: WITH_FILTERS}


class Paired:
    """The seconds of all runs of a query.

    Args:
        seconds: those known already, by unit and variant.
    """

    def __init__(self, seconds: Mapping[str, Mapping[str, list[float]]] | None = None) -> None:
        self.seconds: dict[str, dict[str, list[float]]] = {unit: {} for unit in UNITS}
        for unit, by_variant in (seconds or {}).items():
            self.seconds[unit] = dict(by_variant)

    def add(self, used: Mapping[str, Mapping[str, float]]) -> None:
        """Adds a round: seconds by variant and unit."""
        for variant, by_unit in used.items():
            for unit, value in by_unit.items():
                self.seconds[unit].setdefault(variant, []).append(value)

    def has(self, variant: str) -> bool:
        """Whether a variant has been measured."""
        return all(variant in by_variant for by_variant in self.seconds.values())

    def runs(self, unit: str, variant: str) -> list[float]:
        """Of stock and ours all runs of each round."""
        return [
            value for same in _RUNS.get(variant, (variant,)) for value in self.seconds[unit].get(same, [])
        ]

    def median(self, unit: str, variant: str) -> float:
        """Seconds."""
        return median(self.runs(unit, variant))

    def pairs(self, unit: str, variant: str) -> Pairs:
        """Over stock. Of ``AGAIN`` that is A/A: stock over itself."""
        base = self.runs(unit, STOCK) if variant == OURS else self.seconds[unit][STOCK]
        return Pairs("", "", "", base, self.runs(unit, variant))

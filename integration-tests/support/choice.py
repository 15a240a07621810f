"""Which tests run in a mode that does not run all of them.

Choosing by position is a trap: parameters vary in a fixed order, so every sixth test may always have the
same value of one of them. Here a share is chosen by hashes of the tests' names, and each value of each
parameter is among the chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: A parameter of a module's tests and one of its values, both as text.
Value = tuple[str, str, str]


@dataclass(frozen=True)
class Case:
    """One test with its parameters.

    Attributes:
        module: the module's name; the same parameter of two modules is two parameters.
        name: the test's name with the values in brackets; unique in its module.
        parameters: pairs of a parameter, those of fixtures included, and its value; both as text.
    """

    module: str
    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def values(self) -> frozenset[Value]:
        """What running this test covers: its parameters' values, and the test function itself."""
        own = {(self.module, parameter, value) for parameter, value in self.parameters}
        return frozenset(own | {(self.module, "function", self.name.partition("[")[0])})


def text(value: Any, index: int) -> str:
    """A parameter's value as text: itself where it is short and the same in each run, else its position."""
    return str(value) if value is None or isinstance(value, str | int | float) else f"#{index}"


def choose(cases: Sequence[Case], one_in: int, salt: str = "") -> set[Case]:
    """Chooses about one in `one_in`, such that each value of each parameter and each function is among them.

    First come the fewest tests that have all values, or nearly so; then, up to the share, those with the
    least hashes.

    Args:
        cases: those to choose from.
        one_in: 1 chooses all. Where the values need more tests than the share has, more are chosen.
        salt: another one chooses others, for example a mode's name.

    Returns:
        The chosen; the same in every run and on every machine, in whatever order `cases` are.

    Raises:
        ValueError: `one_in` is less than 1.
    """
    if one_in < 1:
        raise ValueError(f"one_in is {one_in}, must be at least 1")
    left = sorted(cases, key=lambda case: _hash(case, salt))
    chosen: list[Case] = []
    for module in sorted({case.module for case in cases}):
        chosen += _covering([case for case in left if case.module == module])
    taken = set(chosen)
    more = max(0, -(-len(left) // one_in) - len(taken))
    return taken.union([case for case in left if case not in taken][:more])


def not_covered(cases: Iterable[Case], chosen: Collection[Case]) -> list[Value]:
    """The values that some of `cases` have and none of `chosen`, sorted."""
    return sorted(_all_values(cases) - _all_values(chosen))


def _covering(by_hash: Sequence[Case]) -> list[Case]:
    """The test with most values that no earlier one had, again and again; of equals the first."""
    chosen: list[Case] = []
    missing = _all_values(by_hash)
    while missing:
        best = max(by_hash, key=lambda case: len(case.values() & missing))
        chosen.append(best)
        missing -= best.values()
    return chosen


def _all_values(cases: Iterable[Case]) -> set[Value]:
    return {value for case in cases for value in case.values()}


def _hash(case: Case, salt: str) -> bytes:
    # Not Python's own: that of a text is another one in each process.
    return hashlib.sha256(f"{salt}:{case.module}:{case.name}".encode()).digest()

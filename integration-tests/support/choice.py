"""Which tests run in a mode that does not run all of them.

Choosing by position is a trap: parameters vary in a fixed order, so every sixth test may always have the
same value of one of them. Here a share is chosen by hashes of the tests' names, and each value of each
parameter, or of those that are said to be axes, is among the chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: A parameter of a module's tests and one of its values, both as text.
Value = tuple[str, str, str]
#: Names of the parameters whose every value is wanted; None: every value of all, and each function.
Axes = Collection[str] | None


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

    def values(self, axes: Axes = None) -> frozenset[Value]:
        """What running this test covers: its parameters' values, and the test function itself.

        With `axes` only the values of these parameters, and the module.
        """
        if axes is None:
            own = {(self.module, parameter, value) for parameter, value in self.parameters}
            return frozenset(own | {(self.module, "function", self.name.partition("[")[0])})
        own = {(self.module, parameter, value) for parameter, value in self.parameters if parameter in axes}
        return frozenset(own | {(self.module, "module", self.module)})


def text(value: Any, index: int) -> str:
    """A parameter's value as text: itself where it is short and the same in each run, else its position."""
    return str(value) if value is None or isinstance(value, str | int | float) else f"#{index}"


def choose(cases: Sequence[Case], one_in: int, salt: str = "", axes: Axes = None) -> set[Case]:
    """Chooses about one in `one_in`, such that each value of each parameter and each function is among them.

    With `axes`: each value of these parameters in each module that has it, and each module.

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
        chosen += _covering([case for case in left if case.module == module], axes)
    taken = set(chosen)
    more = max(0, -(-len(left) // one_in) - len(taken))
    return taken.union([case for case in left if case not in taken][:more])


def parts(sizes: Mapping[str, int], count: int) -> list[set[str]]:
    """Modules in so many parts of about the same size; the same in every run.

    Args:
        sizes: by module, how many tests it has.
        count: of parts, some of which may be empty.

    Raises:
        ValueError: `count` is less than 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}, must be at least 1")
    made: list[set[str]] = [set() for _ in range(count)]
    filled = [0] * count
    for module in sorted(sizes, key=lambda m: (-sizes[m], m)):
        least = filled.index(min(filled))
        made[least].add(module)
        filled[least] += sizes[module]
    return made


def not_covered(cases: Iterable[Case], chosen: Collection[Case], axes: Axes = None) -> list[Value]:
    """The values that some of `cases` have and none of `chosen`, sorted."""
    return sorted(_all_values(cases, axes) - _all_values(chosen, axes))


def _covering(by_hash: Sequence[Case], axes: Axes) -> list[Case]:
    """The test with most values that no earlier one had, again and again; of equals the first."""
    chosen: list[Case] = []
    missing = _all_values(by_hash, axes)
    while missing:
        best = max(by_hash, key=lambda case: len(case.values(axes) & missing))
        chosen.append(best)
        missing -= best.values(axes)
    return chosen


def _all_values(cases: Iterable[Case], axes: Axes) -> set[Value]:
    return {value for case in cases for value in case.values(axes)}


def _hash(case: Case, salt: str) -> bytes:
    # Not Python's own: that of a text is another one in each process.
    return hashlib.sha256(f"{salt}:{case.module}:{case.name}".encode()).digest()

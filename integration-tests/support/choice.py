"""Which tests run in a mode that does not run all of them.

The fewest tests run that have each value of each parameter, or of the parameters that are said to be axes. Of
tests with equally many such values the hash of the name decides. Choosing every sixth test would be a trap:
parameters vary in a fixed order, so these tests may always have the same value of one of them.
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
#: Among these names it stands for each test function.
FUNCTION = "function"


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
        """What running this test covers: its parameters' values, the test function and the module.

        With `axes` only the values of these parameters, the module, and the function if `axes` has FUNCTION.
        """
        found = {(self.module, "module", self.module)}
        if axes is None or FUNCTION in axes:
            found.add((self.module, FUNCTION, self.name.partition("[")[0]))
        own = (pair for pair in self.parameters if axes is None or pair[0] in axes)
        return frozenset(found | {(self.module, parameter, value) for parameter, value in own})


def text(value: Any, index: int) -> str:
    """A parameter's value as text: what it looks like if that is the same in each run, else `index`.

    Args:
        index: pytest's, which numbers tests: it tells equal values of two tests apart.
    """
    shown = str(value) if isinstance(value, str) else repr(value)
    return f"#{index}" if " at 0x" in shown else shown


def choose(
    cases: Sequence[Case], salt: str = "", axes: Axes = None, given: Collection[Case] = ()
) -> set[Case]:
    """Chooses the fewest tests, or nearly so, that have each value of each parameter and each function.

    With `axes`: each value of these parameters in each module that has it, and each module.

    Args:
        salt: another one chooses others, for example a mode's name.
        given: tests that run in any case; what they cover is not wanted again.

    Returns:
        The chosen; the same in every run and on every machine, in whatever order `cases` are.
    """
    by_hash = sorted(cases, key=lambda case: _hash(case, salt))
    missing = _all_values(cases, axes) - _all_values(given, axes)
    modules = sorted({module for module, _, _ in missing})
    return {
        c for m in modules for c in _covering([case for case in by_hash if case.module == m], missing, axes)
    }


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


def _covering(by_hash: Sequence[Case], wanted: set[Value], axes: Axes) -> list[Case]:
    """The test with most wanted values that no earlier one had, again and again; of equals the first."""
    chosen: list[Case] = []
    missing = _all_values(by_hash, axes) & wanted
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

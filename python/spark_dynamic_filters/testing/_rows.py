"""Comparing rows by value: NaN equals NaN, the order of a map's entries does not count."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

Rows = Sequence[Sequence[Any]]


def canonical(value: Any) -> Hashable:
    """A hashable stand-in for a column's value: two values are the same for Spark if their stand-ins are
    equal.

    NaN equals NaN, and 0.0 equals -0.0, as everywhere in Spark SQL. Lists, structs and maps are compared by
    content.
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return ("map", frozenset((canonical(k), canonical(v)) for k, v in value.items()))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return tuple(canonical(v) for v in value)
    if value is not None and type(value).__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
        # As VariantVal, which equals itself only.
        return (type(value).__name__, repr(value))
    try:
        hash(value)
    except TypeError:
        return repr(value)
    hashable: Hashable = value
    return hashable


def multiset_difference(left: Rows, right: Rows, tolerance: float) -> tuple[list[Any], list[Any]]:
    """The rows that only one side has, each as often as it has it more than the other.

    Args:
        tolerance: largest relative or absolute difference between floats that still counts as equal; 0.0
            for none.
    """
    only_left = _subtract(left, right)
    only_right = _subtract(right, left)
    if tolerance > 0.0 and only_left and only_right:
        return _pair_off(only_left, only_right, tolerance)
    return only_left, only_right


def same_row(left: Sequence[Any], right: Sequence[Any], tolerance: float) -> bool:
    """Whether two rows are the same, floats within `tolerance`."""
    return canonical(tuple(left)) == canonical(tuple(right)) or (
        tolerance > 0.0
        and len(left) == len(right)
        and all(_close(a, b, tolerance) for a, b in zip(left, right, strict=True))
    )


def _subtract(rows: Rows, other: Rows) -> list[Any]:
    spare = Counter(canonical(tuple(row)) for row in other)
    left_over = []
    for row in rows:
        key = canonical(tuple(row))
        if spare[key] > 0:
            spare[key] -= 1
        else:
            left_over.append(row)
    return left_over


def _pair_off(left: list[Any], right: list[Any], tolerance: float) -> tuple[list[Any], list[Any]]:
    """Removes pairs that differ by no more than the tolerance.

    Greedy in the order of the floats, among rows that agree in everything else: exact for one float column,
    and for more of them unless two rows lie within the tolerance of each other.
    """
    groups: dict[Hashable, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((left, right)):
        for row in rows:
            groups[_without_floats(row)][side].append(row)
    rest: tuple[list[Any], list[Any]] = ([], [])
    for group in groups.values():
        lefts, rights = (sorted(rows, key=_floats) for rows in group)
        for row in lefts:
            match = next((i for i, other in enumerate(rights) if same_row(row, other, tolerance)), None)
            if match is None:
                rest[0].append(row)
            else:
                rights.pop(match)
        rest[1].extend(rights)
    return rest


def _without_floats(row: Sequence[Any]) -> Hashable:
    return tuple("float" if isinstance(v, float) else canonical(v) for v in row)


def _floats(row: Sequence[Any]) -> tuple[float, ...]:
    # NaN has no place in Python's order: Spark's is above all others.
    return tuple(math.inf if math.isnan(v) else v for v in row if isinstance(v, float))


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return canonical(a) == canonical(b)

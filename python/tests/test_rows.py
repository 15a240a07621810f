"""Comparison of rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql.types import VariantVal

from spark_dynamic_filters.testing._rows import canonical, multiset_difference, same_row

NAN = float("nan")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (NAN, float("nan")),
        (0.0, -0.0),
        ([NAN, 1.0], [NAN, 1.0]),
        ({"a": [1, NAN]}, {"a": [1, NAN]}),
        ({1: "x", 2: "y"}, {2: "y", 1: "x"}),
        (bytearray(b"ab"), b"ab"),
        (Decimal("1.0"), Decimal("1.00")),
        (None, None),
        (VariantVal(b"a", b"b"), VariantVal(b"a", b"b")),
        ([VariantVal(b"a", b"b")], [VariantVal(b"a", b"b")]),
    ],
)
def test_equal(left: object, right: object) -> None:
    assert canonical(left) == canonical(right)
    assert hash(canonical(left)) == hash(canonical(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (NAN, None),
        (0, None),
        ("", None),
        ("None", None),
        (VariantVal(b"a", b"b"), VariantVal(b"a", b"c")),
        (VariantVal(b"a", b"b"), None),
        ([], None),
        ([1, 2], [2, 1]),
        ({1: "x"}, {1: "y"}),
        ({}, []),
        (1.0, 1.0000001),
        (dt.date(2020, 1, 1), dt.date(2020, 1, 2)),
    ],
)
def test_different(left: object, right: object) -> None:
    assert canonical(left) != canonical(right)


def test_multisets() -> None:
    left = [(1, "a"), (1, "a"), (2, None)]
    assert multiset_difference(left, [(2, None), (1, "a"), (1, "a")], 0.0) == ([], [])
    assert multiset_difference(left, [(1, "a"), (2, None)], 0.0) == ([(1, "a")], [])
    assert multiset_difference(left, [(1, "a"), (1, "b"), (2, None)], 0.0) == ([(1, "a")], [(1, "b")])
    assert multiset_difference([], [], 0.0) == ([], [])


def test_tolerance() -> None:
    left = [("a", 1.0), ("a", 2.0), ("b", NAN), ("c", 5.0)]
    right = [("b", NAN), ("a", 2.0000001), ("a", 0.9999999), ("c", 5.0)]
    assert multiset_difference(left, right, 1e-6) == ([], [])
    only_left, only_right = multiset_difference(left, right, 0.0)
    assert (len(only_left), len(only_right)) == (2, 2)
    # The tolerance is for floats only, and for rows that agree in everything else.
    assert multiset_difference([("a", 1.0)], [("b", 1.0)], 0.1) == ([("a", 1.0)], [("b", 1.0)])
    assert multiset_difference([("a", 1)], [("a", 2)], 10.0) == ([("a", 1)], [("a", 2)])


def test_same_row() -> None:
    assert same_row((1, NAN, [2.0]), (1, NAN, [2.0]), 0.0)
    assert not same_row((1, 2.0), (1, 2.1), 0.0)
    assert same_row((1, 2.0), (1, 2.1), 0.1)
    assert not same_row((1, 2.0), (1, None), 0.1)

"""What the harness says of two answers, without a session."""

from __future__ import annotations

from pyspark.sql import Row

from spark_dynamic_filters.testing import _differential


def _rows(*pairs: tuple[str, int]) -> list[Row]:
    return [Row(a=a, b=b) for a, b in pairs]


def test_rows_that_differ_in_a_computed_sort_key_are_no_ties() -> None:
    off, on = _rows(("X", 1), ("Y", 1)), _rows(("P", 1), ("Q", 1))
    plan = "TakeOrderedAndProject(limit=2, orderBy=[{}b#2L ASC NULLS FIRST], output=[a#1,b#2L])"

    def tied(first: str) -> list[str] | None:
        return _differential._tied_keys(off, on, plan.format(first), ordered=False, tolerance=0)

    assert tied("") == ["b"]
    assert tied("lower(a#1) ASC NULLS FIRST,") is None
    assert tied("(a#1 + c#3) DESC NULLS LAST,") is None

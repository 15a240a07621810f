"""What the harness says of two answers and of a report, without a session."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FILTER, SCAN
from pyspark.sql import Row

from spark_dynamic_filters import Analysis
from spark_dynamic_filters._report import QueryReport
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


REASON = "the aggregated column is computed"


def _report(filter_: dict[str, Any], scan: dict[str, Any]) -> Analysis:
    return Analysis(QueryReport(1, "== Plan ==\nScan hits", [filter_], [scan]), 0.5)  # type: ignore[list-item]


FIRED = _report(FILTER, SCAN)
UNSELECTIVE = _report(FILTER, SCAN | {"rows_pruned": 0, "files_pruned": 0})
REJECTED = _report(
    FILTER | {"state": "disabled", "generation": 0, "reason": REASON},
    SCAN | {"rows_pruned": 0, "files_pruned": 0},
)


def test_a_filter_that_skips_nothing_is_a_failure_unless_none_may_fire() -> None:
    for report in (UNSELECTIVE, REJECTED, None):
        with pytest.raises(AssertionError, match=r"^no dynamic filter fired; pass fires=False if none may"):
            _differential.assert_fires(True, "SELECT 1", report)
        _differential.assert_fires(False, "SELECT 1", report)
        _differential.assert_fires(None, "SELECT 1", report)
    with pytest.raises(AssertionError, match=r"^a dynamic filter fired, and with fires=False none may"):
        _differential.assert_fires(False, "SELECT 1", FIRED)
    _differential.assert_fires(True, "SELECT 1", FIRED)
    _differential.assert_fires(None, "SELECT 1", FIRED)


def test_only_a_filter_that_was_there_may_fire_in_another_run() -> None:
    """Without another run three of 1,500 tests failed on a busy machine: the scan was over first."""
    assert _differential.may_fire_next_time(UNSELECTIVE)
    assert not any(map(_differential.may_fire_next_time, (FIRED, REJECTED, None)))


def test_the_failure_shows_query_reasons_and_report() -> None:
    with pytest.raises(AssertionError) as caught:
        _differential.assert_fires(True, "SELECT min(k + 1)\nFROM hits", REJECTED)
    lines = str(caught.value).splitlines()
    assert lines[1:3] == [
        "query: SELECT min(k + 1) FROM hits",
        f"reasons: {REASON}",
    ]
    assert "Scan hits" in lines
    with pytest.raises(AssertionError) as caught:
        _differential.assert_fires(True, "SELECT 1", None)
    assert str(caught.value).splitlines()[2:] == [
        "reasons: none",
        "(none: Spark knew the rows without running anything)",
    ]

"""What an analysis prints."""

from __future__ import annotations

from typing import Any

import pytest

from spark_dynamic_filters import Analysis
from spark_dynamic_filters._report import QueryReport

FILTER: dict[str, Any] = {
    "filter_id": "3",
    "producer": "topk",
    "columns": ["k", "n"],
    "state": "ready",
    "generation": 2,
    "expression": "k <= 5",
    "reason": None,
}
SCAN: dict[str, Any] = {
    "scan_id": 7,
    "table_name": "hits",
    "filter_ids": ["3"],
    "files_total": 4,
    "files_pruned": 3,
    "files_unopened": 1,
    "row_groups_total": 0,
    "row_groups_pruned": 0,
    "rows_total": 2_000,
    "rows_pruned": 500,
    "rows_output": 1_500,
    "bytes_total": None,
    "bytes_read": None,
}


def _analysis(filters: list[Any], scans: list[Any]) -> Analysis:
    return Analysis(QueryReport(12, "== Plan ==\nScan <x>\n\n", filters, scans), 1.5)


def test_text() -> None:
    text = str(_analysis([FILTER], [SCAN]))
    assert text.startswith("query 12: 1.500 s\n\n== Plan ==\nScan <x>\n\nfilter  producer")
    assert "3       topk      k, n     ready  2           k <= 5" in text
    assert "3 of 4 (75 %), 1 unopened" in text
    assert "500 of 2,000 (25 %)" in text
    # No share of nothing, and nothing where a number is not known.
    assert "0 of 0  " in text
    assert text.splitlines()[-1].rstrip().endswith("1,500")


@pytest.mark.parametrize(
    ("part", "total", "expected"),
    [
        (0, 10, "0"),
        (1, 2_000_000, "< 1"),
        (1, 100, "1"),
        (1_999_980, 2_000_000, "> 99"),
        (99, 100, "99"),
        (10, 10, "100"),
    ],
)
def test_only_none_is_0_and_only_all_is_100(part: int, total: int, expected: str) -> None:
    text = str(_analysis([FILTER], [SCAN | {"rows_pruned": part, "rows_total": total}]))
    assert f"{part:,} of {total:,} ({expected} %)" in text


def test_html_is_escaped() -> None:
    html = _analysis([FILTER], [SCAN])._repr_html_()
    assert "<pre>== Plan ==\nScan &lt;x&gt;" in html
    assert "<td>k &lt;= 5</td>" in html


def test_nothing_to_show() -> None:
    analysis = _analysis([], [])
    assert "no dynamic filters" in str(analysis)
    assert "no dynamic filters" in analysis._repr_html_()
    assert not analysis.fired()
    assert analysis.reasons() == []


def test_fired() -> None:
    assert _analysis([FILTER], [SCAN]).fired()
    assert not _analysis([FILTER | {"generation": 0}], [SCAN]).fired()
    assert _analysis([FILTER], [SCAN | {"rows_pruned": 0}]).fired()
    assert not _analysis([FILTER], [SCAN | {"rows_pruned": 0, "files_pruned": 0}]).fired()
    rejected = FILTER | {"state": "disabled", "generation": 0, "reason": "too large"}
    assert _analysis([rejected], []).reasons() == ["too large"]

"""What an analysis prints."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fakes import FILTER, SCAN

from spark_dynamic_filters import Analysis
from spark_dynamic_filters._plan import final, operators
from spark_dynamic_filters._report import QueryReport

PLAN = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=true
+- == Final Plan ==
   ResultQueryStage 2
   +- *(3) TakeOrderedAndProject(limit=3, orderBy=[a < b])
      +- TopKFilter DynamicFilter#12 [id: not known yet], limit=3
         +- *(2) BroadcastHashJoin [id#6L], [k#9L], Inner
            :- *(2) ColumnarToRow
            :  +- DynamicFilterScan DynamicFilter#12 [id: id < 3], DynamicFilter#3 [id: id IN (4 values)]
            :     +- FileScan parquet [id#6L] Batched: true, DataFilters: []
            +- BroadcastQueryStage 0
               +- BuildKeys DynamicFilter#3 [k: id IN (4 values)]
                  +- FileScan parquet [k#9L] Batched: true
+- == Initial Plan ==
   TakeOrderedAndProject(limit=3, orderBy=[a < b])
   +- DynamicFilterScan DynamicFilter#3 [id: not known yet]
"""


SENTENCE = "1 filter in force: skipped 3 of 4 files"


def _analysis(filters: list[Any], scans: list[Any]) -> Analysis:
    return Analysis(QueryReport(12, "== Plan ==\nScan <x>\n\n", filters, scans, sentence=SENTENCE), 1.5)


def test_text() -> None:
    text = str(_analysis([FILTER], [SCAN]))
    assert text.startswith(f"query 12: 1.500 s; {SENTENCE}\n\n")
    assert _analysis([FILTER], [SCAN]).summary() == SENTENCE
    assert "\n\n== Plan ==\nScan <x>\n\nfilter  producer" in text
    assert "3       topk      k, n     ready  2           k <= 5" in text
    assert "\n  output     1,500 rows\n" in text
    # No share of nothing, and nothing where a number is not known.
    assert "0 of 0" not in text
    assert "bytes" not in text


def test_a_bar_for_each_level_that_there_is() -> None:
    lines = str(_analysis([FILTER], [SCAN])).splitlines()
    assert "scan 7 of hits, filters #3" in lines
    assert "  files      [#####...............] 1 of 4 (25 %) read, 1 never opened" in lines
    assert "  rows       [###############.....] 1,500 of 2,000 (75 %) read" in lines
    assert not any(line.startswith("  row groups") for line in lines)
    assert "  skipped by page index 1,000, statistics 3" in lines
    known = str(_analysis([FILTER], [SCAN | {"bytes_read": 5, "bytes_total": 10}])).splitlines()
    assert "  bytes      [##########..........] 5 of 10 (50 %) read" in known


REJECTED = FILTER | {"filter_id": None, "state": "disabled", "generation": 0}


def test_what_was_rejected_comes_last() -> None:
    rejected = REJECTED | {"producer": "aggregate", "columns": ["v"], "reason": "too large", "advice": "do b"}
    analysis = _analysis([rejected, FILTER], [SCAN])
    made, other = str(analysis).split("\n\nPossible, but not used:\n")
    assert "too large" not in made
    assert other.splitlines()[2] == "aggregate  v        too large  do b"
    shown = analysis._repr_html_()
    assert shown.index("k &lt;= 5") < shown.index("Possible, but not used:") < shown.index("too large")


def test_advice() -> None:
    reasons = (("a", "do b"), ("a", "do b"), ("c", "nothing: d"))
    text = str(_analysis([FILTER | {"reason": r, "advice": a} for r, a in reasons], []))
    assert text.endswith("\n\na\n    do b")


def test_times() -> None:
    late = FILTER | {"ready_ms": 1_500, "wait_ms": 20}
    text = str(_analysis([late], [SCAN]))
    assert text.endswith(
        "\n\nfilter 3: complete 1,500 ms after its build side began, scans were held back for it 20 ms"
    )


def _time(number: str, registered: int, ready: int | None, used: int | None) -> dict[str, Any]:
    return {"filter_id": number, "registered_ms": registered, "ready_ms": ready, "used_ms": used}


#: Of a query of 600 ms: ten a character.
FILTERS = [
    FILTER,
    FILTER | {"filter_id": "4", "columns": ["j"], "wait_ms": 100},
    FILTER | {"filter_id": "5", "columns": ["x"], "state": "disabled"},
    FILTER | {"filter_id": None, "state": "disabled"},
]
TIMES = [_time("3", 0, 300, None), _time("4", 100, 200, 210), _time("5", 50, 70, None)]


def _time_line(text: str) -> str:
    (found,) = [part for part in text.split("\n\n") if "not there yet" in part]
    return found


def test_time_line() -> None:
    text = str(Analysis(QueryReport(1, PLAN, FILTERS, [], 600, TIMES), 0.6))
    assert [line.rstrip() for line in _time_line(text).splitlines()] == [
        "         0                   200                 400                 600 ms",
        "#3 k, n  " + "-" * 30 + "=" * 30,
        "#4 j     " + " " * 10 + "~" * 10 + "=o" + "=" * 38,
        "#5 x          -",
        "- not there yet  ~ a scan is held back for it  = in force  o the first scan that has it starts",
    ]


@pytest.mark.parametrize(("duration", "times"), [(None, TIMES), (0, TIMES), (600, [])])
def test_no_time_line_where_times_are_not_known(duration: int | None, times: list[Any]) -> None:
    analysis = Analysis(QueryReport(1, PLAN, FILTERS, [], duration, times), 0.6)
    assert "not there yet" not in str(analysis) + analysis._repr_html_()


def test_notebooks_show_the_same_time_line() -> None:
    analysis = Analysis(QueryReport(1, PLAN, FILTERS, [], 600, TIMES), 0.6)
    assert html.escape(_time_line(str(analysis))) in analysis._repr_html_()


def test_notebooks_show_the_same_bars() -> None:
    shown = _analysis([FILTER], [SCAN])._repr_html_()
    assert "<div>scan 7 of hits, filters #3</div>" in shown
    assert '<span style="width:25.0%">' in shown
    assert "<td>1 of 4 (25 %) read, 1 never opened</td>" in shown
    assert "<div>skipped by page index 1,000, statistics 3</div>" in shown


def test_the_final_plan_and_the_ways_of_filters() -> None:
    text = str(Analysis(QueryReport(1, PLAN, [FILTER], [SCAN]), 0.1))
    assert "Initial Plan" not in text
    assert "\n\n== Physical Plan ==\nResultQueryStage 2\n+- *(3) TakeOrdered" in text
    assert "#12: TopKFilter --> DynamicFilterScan of FileScan parquet\n" in text
    assert "#3: BuildKeys --> DynamicFilterScan of FileScan parquet\n" in text
    assert text.count(" --> ") == 2
    known = str(Analysis(QueryReport(1, PLAN, [FILTER], [SCAN | {"filter_ids": ["3", "12"]}]), 0.1))
    assert "#3: BuildKeys --> DynamicFilterScan of hits (scan 7)\n" in known


def test_scans_with_the_same_filters_are_told_apart_by_table_and_order() -> None:
    part = "\n".join(
        f":- DynamicFilterScan DynamicFilter#3 [id: not known yet]\n:  +- FileScan parquet {table}[id#6L]"
        for table in ("s.web", "s.store", "s.store")
    )
    plan = f"Union\n{part}\n+- BuildKeys DynamicFilter#3 [k: not known yet]"
    scans = [
        SCAN | {"scan_id": i, "table_name": t} for i, t in ((4, "s.store"), (5, "s.store"), (6, "s.web"))
    ]
    text = str(Analysis(QueryReport(1, plan, [FILTER], scans), 0.1))
    assert [line.split(" of ")[1] for line in text.splitlines() if " --> " in line] == [
        "s.web (scan 6)",
        "s.store (scan 4)",
        "s.store (scan 5)",
    ]


def test_only_a_line_feed_ends_a_line_of_the_plan() -> None:
    plan = "Filter (a = x\u2028y\x0bz\x85)\n+- BuildKeys DynamicFilter#3 [k: not known yet]"
    assert [o.name for o in operators(plan)] == ["Filter", "BuildKeys"]
    assert len(final(plan).split("\n")) == 2


def test_drawing(tmp_path: Path) -> None:
    analysis = Analysis(QueryReport(1, PLAN, [FILTER], [SCAN]), 0.1)
    file = tmp_path / "analysis.html"
    analysis.to_html(file)
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    start, end = page.index("<svg"), page.index("</svg>") + len("</svg>")
    drawing = ElementTree.fromstring(page[start:end])
    texts = [e.text for e in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["ResultQueryStage 2", "TakeOrderedAndProject(limit=3, orderBy=[a < b])"]
    assert texts[4] == "ColumnarToRow"
    assert texts[-2:] == ["#12", "#3"]
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) == 4
    assert "initial" not in page[start:end].lower()


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
    text = str(_analysis([FILTER], [SCAN | {"bytes_read": part, "bytes_total": total}]))
    assert f"{part:,} of {total:,} ({expected} %)" in text


def test_html_is_escaped() -> None:
    shown = _analysis([FILTER], [SCAN])._repr_html_()
    assert "<pre>== Plan ==\nScan &lt;x&gt;" in shown
    assert "<x>" not in shown
    assert "<td>k &lt;= 5</td>" in shown


def test_nothing_to_show() -> None:
    analysis = _analysis([], [])
    assert "filter  producer" not in str(analysis)
    assert "not used" not in str(analysis) + analysis._repr_html_()
    assert not analysis.fired()
    assert analysis.reasons() == []


def test_fired() -> None:
    assert _analysis([FILTER], [SCAN]).fired()
    assert not _analysis([FILTER | {"generation": 0}], [SCAN]).fired()
    assert _analysis([FILTER], [SCAN | {"rows_pruned": 0}]).fired()
    assert not _analysis([FILTER], [SCAN | {"rows_pruned": 0, "files_pruned": 0}]).fired()
    rejected = FILTER | {"state": "disabled", "generation": 0, "reason": "too large"}
    assert _analysis([rejected], []).reasons() == ["too large"]

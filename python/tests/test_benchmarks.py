"""The benchmarks' runner and report, with an engine that only counts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from bench import Benchmark
from case import SPARK, Case, Variant, variants
from engines import Run
from report import Report
from results import Measured, Pairs

ENVIRONMENT = {"commit": "abc", "date": "2026-11-27"}


class Counting:
    """Each run takes twice as long as the one before; a text `broken` fails."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def register(self, name: str, view: Any) -> None:
        pass

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        if text == "broken":
            raise ValueError("of no use\nat all")
        self.texts.append(text)
        seconds = 2.0 ** len(self.texts)
        return Run([(text == "other",)], {"wall": seconds, "processor": seconds})


@pytest.fixture
def measured(tmp_path: Path) -> Any:
    """What measures a case in two rounds after one; the report is `r.json`."""

    def run(case: Case) -> tuple[Measured, list[str]]:
        engine, report = Counting(), Report(tmp_path / "r.json", "Title", ENVIRONMENT)
        options = argparse.Namespace(rounds=2, warm_up=1, minutes=1, variants=None)
        Benchmark({SPARK: engine}, {}, report, options).measure(case, range(3), 0)
        report.write()
        return report.of(case), engine.texts

    return run


def test_variants_take_turns_and_keep_their_order(measured: Any) -> None:
    case = Case("part", "name", variants("a", "b"))
    found, texts = measured(case)
    assert texts == ["a", "b", "a", "b", "a", "a", "a", "a", "b"]
    assert found.variants == ["stock", "oracle", "ours"]
    assert found.rounds == 2
    assert found.seconds["wall"]["stock"] == [2.0**6, 2.0**8]
    # The report has it: it is not measured again.
    assert measured(case) == (found, [])


def test_wrong_answers_and_failures_are_problems(measured: Any, tmp_path: Path) -> None:
    ways = {"first": Variant("a"), "wrong": Variant("other"), "fails": Variant("broken")}
    found, _ = measured(Case("part", "name", ways))
    assert found.problems == {"wrong": "the rows differ from stock's", "fails": "failed: of no use"}
    page = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "Commit abc, 2026-11-27;" in page
    assert "* name: fails: failed: of no use" in page
    assert "| case | first, s | wrong, s | wrong / first | processor: wrong / first |" in page


def test_report_of_another_commit_is_begun_anew(measured: Any, tmp_path: Path) -> None:
    measured(Case("part", "name", variants("a")))
    other = ENVIRONMENT | {"commit": "def"}
    assert not Report(tmp_path / "r.json", "Title", other, keep=False).cases
    kept = Report(tmp_path / "r.json", "Title", other, keep=True)
    assert len(kept.cases) == 1
    assert kept.environment["commit"] == "abc, def"


def test_engines_may_lack_a_unit() -> None:
    seconds = {"wall": {"a": [1.0], "b": [2.0]}, "processor": {"a": [3.0]}}
    line = Report.line(Measured("part", "name", "table", seconds=seconds))
    assert line == "part, name, table: wall a 1.000 s, b 2.000 s, processor a 3.000 s"


def test_ratio_is_the_median_of_pairs() -> None:
    assert str(Pairs([1, 2, 4], [2, 2, 2])) == "1.000 (0.500 to 2.000)"
    assert str(Pairs([1, 2, 4], [4])) == "2.000"


@pytest.mark.parametrize(
    "page", sorted(Path(__file__).parents[2].glob("docs/bench/*.json")), ids=lambda p: p.stem
)
def test_pages_are_those_of_their_reports(page: Path) -> None:
    if "cases" in json.loads(page.read_text(encoding="utf-8")):
        assert page.with_suffix(".md").read_text(encoding="utf-8") == Report(page).page()

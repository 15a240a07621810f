"""Runs a benchmark and writes its report: ``python benchmarks/bench.py joins --sizes 10 --rounds 3``.

The variants of a case take turns; each round begins with another one. Answers are compared with the first
variant's. The report is written after every round of a case, and what it has of the same commit is not
measured again: a run may be cut in parts, and each part has its own warm-up. Ends with 1 if an answer was
wrong or a query failed.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datafiles
import runs
from case import SPARK, Case, Variant, View
from engines import Engine, Jar, Run
from progress import step
from report import Report, summary
from results import AGAIN, Measured, rotated
from suites import SUITES, default_report, settings

FAILED = "failed: "


class Benchmark:
    """Measures cases for a report."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        views: Mapping[str, Mapping[str, View]],
        report: Report,
        options: argparse.Namespace,
    ) -> None:
        self._engines = engines
        self._views = views
        self._report = report
        self._options = options
        self._end = time.monotonic() + 60 * options.minutes

    def measure(self, case: Case, turns: Sequence[int], number: int) -> None:
        """Measures these rounds of a case; those below the number of warm-up rounds do not count."""
        measured = self._report.of(case)
        if measured.rounds >= self._options.rounds or time.monotonic() > self._end:
            return
        with contextlib.ExitStack() as stack, step(case.title) as progress:
            for engine in self._engines.values():
                for name, view in self._views.get(case.title, {}).items():
                    engine.register(name, view)
            if case.around:
                spark: Any = self._engines[SPARK]
                measured.notes |= stack.enter_context(case.around(spark.spark))
            texts = self._texts(case)
            for turn in turns:
                progress.note(f"round {turn + 1} of {turns[-1] + 1}")
                # One round alone would favour a variant that runs second in all queries.
                self._round(case, measured, rotated(list(texts), turn + number), texts, turn)
        if turns[-1] >= self._options.warm_up:
            print(self._report.line(measured), flush=True)

    def _texts(self, case: Case) -> dict[str, str]:
        """The texts of the variants that were asked for; an oracle's needs the answer."""
        base, *others = case.variants
        wanted = [base, *(v for v in others if not self._options.variants or v in self._options.variants)]
        texts = {name: case.variants[name].text for name in wanted}
        rows: Sequence[Any] = []
        if any(callable(text) for text in texts.values()) and isinstance(texts[base], str):
            rows = self._run(case, base, str(texts[base]), report=False).rows
        return {name: text(rows) if callable(text) else text for name, text in texts.items()}

    def _run(self, case: Case, name: str, text: str, report: bool) -> Run:
        variant: Variant = case.variants[name]
        return self._engines[variant.engine].run(case, variant, text, report)

    def _round(
        self, case: Case, measured: Measured, order: Sequence[str], texts: Mapping[str, str], turn: int
    ) -> None:
        counts, found = turn >= self._options.warm_up, dict[str, Run]()
        is_last = turn == self._options.warm_up + self._options.rounds - 1
        for name in order:
            if measured.problems.get(name, "").startswith(FAILED):
                continue
            try:
                found[name] = self._run(case, name, texts[name], report=is_last)
            except Exception as error:  # of any engine; the other cases go on
                measured.problems[name] = FAILED + (str(error).splitlines() or [repr(error)])[0][:200]
        for name in texts:  # in their own order, not in that of the turns
            if counts and name in found:
                measured.add(name, found[name].seconds)
            if name in found and (skipped := found[name].skipped) is not None:
                measured.skipped[name], measured.filters = dict(skipped), found[name].filters
        base = found.get(next(iter(texts)))
        differ = {
            name: text
            for name, run in found.items()
            if base is not None and (text := case.difference(base.rows, run.rows))
        }
        if AGAIN in differ:
            measured.notes["answers"] = "not the same in two runs of stock: ties"
        else:
            measured.problems |= differ
        if counts:
            self._report.write()


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--sizes", type=_number, nargs="*", help="millions of rows, or scale factors")
    parser.add_argument("--only", default="", help="cases whose title has this text")
    parser.add_argument("--variants", nargs="*", help="these beside the first one (default: all)")
    parser.add_argument("--rounds", type=int, help="that count")
    parser.add_argument("--warm-up", type=int, help="rounds before, in every run")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no further case after so many")
    parser.add_argument("--keep", action="store_true", help="go on with a report of another commit")
    parser.add_argument("--jars", type=Path, nargs=2, metavar=("OLD", "NEW"), help="what versions compares")
    parser.add_argument("--out", type=Path, help="JSON; the page beside it (default: in build/bench)")
    options = parser.parse_args()
    suite = SUITES[options.suite]
    sizes = options.sizes or suite.sizes
    options.rounds = options.rounds or suite.rounds
    options.warm_up = suite.warm_up if options.warm_up is None else options.warm_up
    if options.suite.startswith("versions") and not options.jars:
        parser.error(f"{options.suite}: compares two jars, --jars OLD NEW")
    out = options.out or default_report(options.suite, sizes)
    report = Report(out, suite.title, runs.environment(), options.keep)
    cases = [case for size in sizes for case in suite.cases(size) if options.only in case.title]
    views = made(cases)
    with contextlib.ExitStack() as stack:
        engines: dict[str, Engine] = {name: peer() for name, peer in suite.peers.items()}
        if options.jars:
            for name, jar in zip(("before", "after"), options.jars, strict=True):
                engines[name] = stack.enter_context(contextlib.closing(Jar(jar)))
        else:
            spark = runs.session(f"benchmark: {suite.title}", settings(suite, sizes))
            stack.callback(spark.stop)
            engines[SPARK] = suite.engine(spark)
        benchmark = Benchmark(engines, views, report, options)
        turns = range(options.warm_up + options.rounds)
        for some in [[turn] for turn in turns] if suite.by_round else [turns]:
            for number, case in enumerate(cases):
                benchmark.measure(case, some, number)
    if suite.has_chart:
        report.draw()
    report.write()
    print("\n".join(summary(report.cases)))
    if problems := [f"{c.part}, {c.name}: {c.problems}" for c in report.cases if c.problems]:
        raise SystemExit("\n".join(problems))


def made(cases: Sequence[Case]) -> dict[str, dict[str, View]]:
    """The files of all cases, made if they are not there yet, by title and name."""
    makers = [(case.title, name, maker) for case in cases for name, maker in case.views.items()]
    views: dict[str, dict[str, View]] = {}
    with step("data"):
        found = datafiles.apart([maker for _, _, maker in makers])
    for (title, name, _), view in zip(makers, found, strict=True):
        views.setdefault(title, {})[name] = view if isinstance(view, View) else View(view)
    return views


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


if __name__ == "__main__":
    main()

"""Join filters against stock Spark, its bloom filters and an oracle: ``python benchmarks/bench_joins.py``."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import join_queries
import runs
import stages
from benchmark import Benchmark, Options
from join_queries import (
    BLOOM,
    BLOOM_BUILD,
    CLUSTERED,
    MILLION,
    OURS,
    PARTS,
    STAR,
    STRATEGIES,
    TAP,
    USELESS,
    VARIANTS,
    Case,
)
from join_report import JoinReport, Measured
from join_tables import WARM_UP_ROWS
from progress import Step, step
from results import rounds
from runs import STOCK, Run
from stages import StageTime

LEAST_ROUNDS = 3  # also when the time for a query is used up
SLOW_SECONDS = 5.0  # a query that takes longer than this is run once before it is measured, others twice
FILTER_COLUMNS = ("filter_id", "producer", "columns", "form", "state", "reason", "size_bytes", "wait_ms")


@dataclass(frozen=True)
class JoinRun:
    """A run, its rows of ``dynamic_filters()``, and for taps what the build side's stage took."""

    run: Run
    filters: Sequence[Mapping[str, Any]] = ()
    build: StageTime | None = None


class JoinBenchmark(Benchmark):
    """One run: data first, while no JVM holds memory; then all parts in one session."""

    report: JoinReport

    def __init__(self, options: argparse.Namespace) -> None:
        """Takes the parsed command line."""
        super().__init__(options, JoinReport())
        if options.keep:
            self.report.keep(options.out)

    def run(self) -> None:
        """Measures all that was asked for, writing the report after every query."""
        cases, warm_up = self._cases(), self._warm_up_cases()
        if self.options.only_data:
            return
        self.spark = runs.session("benchmark of joins", plugin=OURS in self.options.variants)
        self.spark.conf.set(BLOOM_BUILD, self.options.bloom_build)
        try:
            self._warm_up(warm_up)
            for case in cases:
                self._measured(case)
        finally:
            self.spark.stop()

    def _cases(self) -> list[Case]:
        data, parts, strategies = self.options.data, self.options.parts, self.options.strategies
        cases: list[Case] = []
        if CLUSTERED in parts:
            for size in self.options.sizes:
                cases += join_queries.clustered(data, size * MILLION, strategies)
        if STAR in parts:
            cases += join_queries.star(data, self.options.star_size * MILLION, strategies)
        if USELESS in parts:
            cases += join_queries.useless(data, self.options.useless_size * MILLION, strategies)
        if TAP in parts:
            cases += join_queries.tap(data, self.options.tap_size * MILLION)
        return cases

    def _warm_up_cases(self) -> list[Case]:
        makers = {
            CLUSTERED: join_queries.clustered,
            STAR: join_queries.star,
            USELESS: join_queries.useless,
        }
        return [
            case
            for part, make in makers.items()
            if part in self.options.parts
            for case in make(self.options.data, WARM_UP_ROWS, self.options.strategies)
        ]

    def _warm_up(self, cases: Sequence[Case]) -> None:
        """Runs the joins on small tables until they are compiled, or the first measured would pay for it."""
        with step("warming up") as progress:
            for number, case in enumerate(cases, start=1):
                progress.note(f"{case.part}, {case.name}, {number} of {len(cases)}")
                self._register(case, progress)
                expected = self._run(case, STOCK)
                for variant in self._variants(case) * self.options.warm_up:
                    self._checked(case, variant, expected)

    def _variants(self, case: Case) -> list[str]:
        return [variant for variant in case.variants if variant in self.options.variants]

    def _measured(self, case: Case) -> None:
        """Measures a case; one that fails is reported, and the others go on."""
        try:
            self._measure(case)
        except (PySparkException, Py4JJavaError) as error:
            self.report.problem(f"{case.title}: failed: {str(error).splitlines()[0]}")
        self.report.write(self.options.out)

    def _measure(self, case: Case) -> None:
        variants = self._variants(case)
        with step(case.title) as progress:
            self._register(case, progress)
            measured = [Measured.of(case, name) for name in _names(case)]
            if BLOOM in variants:
                measured[0].bloom_filters = self._bloom_filters(case)
            progress.note("warming up")
            expected = self._run(case, STOCK)
            others = [variant for variant in variants if variant != STOCK]
            for variant in others if expected.run.seconds > SLOW_SECONDS else [*others, *variants]:
                self._checked(case, variant, expected)
            started = time.monotonic()
            count = self.options.pairs if case.part in (USELESS, TAP) else self.options.repeats
            for i, turns in rounds(variants, count):
                if i >= LEAST_ROUNDS and time.monotonic() - started > self.options.budget:
                    break
                progress.note(f"round {i + 1} of {count}")
                for variant in turns:
                    _add(measured, variant, self._checked(case, variant, expected))
        for one in measured:
            print(
                f"{case.part}, {one.name}, {one.label}: {one.text()}; {one.forms or 'no filter'}", flush=True
            )
        self.report.add(measured)

    def _register(self, case: Case, progress: Step) -> None:
        for name, folder in case.views.items():
            self.register(name, folder, progress)

    def _checked(self, case: Case, variant: str, expected: JoinRun) -> JoinRun:
        measured = self._run(case, variant)
        # No query here sums floating-point numbers.
        if Counter(map(tuple, measured.run.rows)) != Counter(map(tuple, expected.run.rows)):
            self.report.problem(f"{case.title}, {variant}: the rows differ from stock's")
        return measured

    def _run(self, case: Case, variant: str) -> JoinRun:
        ours, tap = variant == OURS, case.part == TAP
        runs.collect_garbage(self.spark)
        with runs.settings(self.spark, case.settings(variant)):
            before = max((row.query_id for row in self._filters(-1)), default=-1) if ours else -1
            stage = stages.newest(self.spark) if tap else -1
            measured = runs.run(self.spark, case.text(variant), filters=ours, report=ours)
        found = self._filters(before) if ours else []
        filters = [{name: row[name] for name in FILTER_COLUMNS} for row in found]
        build = stages.shuffle_writer(self.spark, stage, int(case.size * MILLION)) if tap else None
        return JoinRun(measured, filters, build)

    def _filters(self, after: int) -> list[Any]:
        """The filters of queries after this one."""
        import spark_dynamic_filters as sdf  # stock can be measured without the package

        return [row for row in sdf.filters(self.spark).collect() if row.query_id > after]

    def _bloom_filters(self, case: Case) -> int:
        """How many bloom filters Spark itself puts into the plan when they are forced on."""
        with runs.settings(self.spark, {**case.settings(BLOOM), runs.ENABLED: "false"}):
            return runs.plan(self.spark.sql(case.sql)).count("might_contain(")


def _names(case: Case) -> list[str]:
    """What one case is reported as: a tap also by what the build stage's tasks took."""
    if case.part != TAP:
        return [case.name]
    return [f"{case.name}: {what}" for what in ("whole query", "build stage", "build stage, processor time")]


def _add(measured: Sequence[Measured], variant: str, one: JoinRun) -> None:
    """Adds a run to each of ``_names``."""
    seconds = [one.run.seconds, *((one.build.run, one.build.cpu) if one.build else ())]
    for to, value in zip(measured, seconds, strict=True):
        to.add(variant, value)
        if variant == OURS:
            to.skipped, to.filters = one.run.skipped, one.filters


def main() -> None:
    """Runs the benchmark, prints the report, and fails if any query failed or any two answers differ."""
    parser = Options(__doc__, data="joins")
    parser.names("parts", PARTS)
    parser.numbers("sizes", int, [10, 100], "clustered: millions of rows")
    parser.number("star-size", 10, "star: millions of facts")
    parser.number("useless-size", 10, "useless: millions of rows")
    parser.number("tap-size", 3, "tap: millions of distinct keys")
    parser.names("strategies", tuple(STRATEGIES))
    parser.names("variants", VARIANTS)
    parser.number("repeats", 5, "rounds of all variants")
    parser.number("pairs", 15, "rounds of the parts useless and tap")
    parser.number("budget", 900.0, f"seconds for a query's rounds, at least {LEAST_ROUNDS} of them")
    parser.number("warm-up", 6, "runs on small tables beforehand")
    parser.add_argument("--bloom-build", default="10MB", help="largest build side of Spark's own filters")
    parser.add_argument("--only-data", action="store_true", help="make the tables, measure nothing")
    parser.add_argument("--keep", action="store_true", help="keep in the report what only an earlier run has")
    options = parser.parsed()
    if STOCK not in options.variants:
        parser.error("--variants: everything is compared with stock")
    benchmark = JoinBenchmark(options)
    benchmark.run()
    if not options.only_data:
        benchmark.report.finish(options.out)


if __name__ == "__main__":
    main()

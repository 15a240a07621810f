"""Join filters against stock Spark, its bloom filters and an oracle: ``python benchmarks/bench_joins.py``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import join_queries
import join_report
import join_runs
import layouts
import runs
from environment import environment
from join_queries import CLUSTERED, MILLION, PARTS, STAR, STRATEGIES, TAP, TPCH, USELESS, Case
from join_results import Measured
from join_runs import BLOOM, BLOOM_BUILD, OURS, VARIANTS, JoinRun
from join_tables import WARM_UP_ROWS
from progress import Step, step
from runs import ORACLE, STOCK

DEFAULT_DATA = layouts.DEFAULT_DATA.parent / "joins"
LEAST_ROUNDS = 3  # also when the time for a query is used up
SLOW_SECONDS = 5.0  # a query that takes longer than this is run once before it is measured, others twice


class JoinBenchmark:
    """One run: data first, while no JVM holds memory; then all parts in one session."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Takes the parsed command line."""
        self.options = options
        self.results = join_report.Results(environment())
        if options.keep:
            self.results.keep(options.out)
        self.registered: dict[str, Path] = {}

    def run(self) -> join_report.Results:
        """Measures all that was asked for, writing the report after every query."""
        cases = self._cases()
        warm_up = self._warm_up_cases()
        if self.options.only_data:
            return self.results
        self.spark = runs.session("benchmark of joins", plugin=OURS in self.options.variants)
        self.spark.conf.set(BLOOM_BUILD, self.options.bloom_build)
        try:
            self._warm_up(warm_up)
            for case in cases:
                self._measured(case)
        finally:
            self.spark.stop()
        return self.results

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
        if TPCH in parts:
            for scale in self.options.scales:
                cases += join_queries.all_of_tpch(data, scale, self.options.queries)
        return cases

    def _warm_up_cases(self) -> list[Case]:
        data, strategies = self.options.data, self.options.strategies
        makers = {
            CLUSTERED: join_queries.clustered,
            STAR: join_queries.star,
            USELESS: join_queries.useless,
        }
        return [
            case
            for part, make in makers.items()
            if part in self.options.parts
            for case in make(data, WARM_UP_ROWS, strategies)
        ]

    def _warm_up(self, cases: Sequence[Case]) -> None:
        """Runs the joins on small tables until they are compiled, or the first measured would pay for it."""
        with step("warming up") as progress:
            for number, case in enumerate(cases, start=1):
                progress.note(f"{case.part}, {case.name}, {number} of {len(cases)}")
                self._register(case, progress)
                expected = join_runs.run(self.spark, case, STOCK)
                for variant in self._variants(case) * self.options.warm_up:
                    self._checked(case, variant, expected)

    def _variants(self, case: Case) -> list[str]:
        unknown = {ORACLE} if case.oracle is None else set()
        if case.part in (USELESS, TAP):
            unknown |= {BLOOM}
        return [variant for variant in self.options.variants if variant not in unknown]

    def _measured(self, case: Case) -> None:
        """Measures a case; one that fails is reported, and the others go on."""
        try:
            self._measure(case)
        except (PySparkException, Py4JJavaError) as error:
            self._problem(f"{_name(case)}: failed: {str(error).splitlines()[0]}")
        self.results.write(self.options.out)

    def _measure(self, case: Case) -> None:
        variants = self._variants(case)
        with step(_name(case)) as progress:
            self._register(case, progress)
            measured = [Measured.of(case, name) for name in _names(case)]
            if BLOOM in variants:
                measured[0].bloom_filters = join_runs.bloom_filters(self.spark, case)
            progress.note("warming up")
            expected = join_runs.run(self.spark, case, STOCK)
            others = [variant for variant in variants if variant != STOCK]
            for variant in others if expected.seconds > SLOW_SECONDS else [*others, *variants]:
                self._checked(case, variant, expected)
            started = time.monotonic()
            repeats = self._repeats(case)
            for i in range(repeats):
                if i >= LEAST_ROUNDS and time.monotonic() - started > self.options.budget:
                    break
                progress.note(f"round {i + 1} of {repeats}")
                turn = i % len(variants)  # so that none is always the first
                for variant in [*variants[turn:], *variants[:turn]]:
                    _add(measured, variant, self._checked(case, variant, expected))
        for one in measured:
            seconds = ", ".join(f"{variant} {one.median(variant):.3f} s" for variant in variants)
            print(f"{case.part}, {one.name}, {one.label}: {seconds}; {one.forms or 'no filter'}", flush=True)
        self.results.add(measured)

    def _repeats(self, case: Case) -> int:
        return self.options.pairs if case.part in (USELESS, TAP) else self.options.repeats

    def _register(self, case: Case, progress: Step) -> None:
        for name, folder in case.views.items():
            if self.registered.get(name) != folder:
                progress.note(f"reading {name} into the page cache")
                runs.warm_page_cache(folder)
                runs.register(self.spark, name, folder)
                self.registered[name] = folder

    def _checked(self, case: Case, variant: str, expected: JoinRun) -> JoinRun:
        run = join_runs.run(self.spark, case, variant)
        if not run.same(expected.rows):
            self._problem(f"{_name(case)}, {variant}: the rows differ from stock's")
        return run

    def _problem(self, text: str) -> None:
        if text not in self.results.problems:
            print(f"PROBLEM: {text}", file=sys.stderr, flush=True)
            self.results.problems.append(text)


def _name(case: Case) -> str:
    return f"{case.part}, {case.name}, {case.label}"


def _names(case: Case) -> list[str]:
    """What one case is reported as: a tap also by what the build stage's tasks took."""
    if case.part != TAP:
        return [case.name]
    return [f"{case.name}: {what}" for what in ("whole query", "build stage", "build stage, processor time")]


def _add(measured: Sequence[Measured], variant: str, run: JoinRun) -> None:
    """Adds a run to each of ``_names``."""
    seconds = [run.seconds, *((run.build.run, run.build.cpu) if run.build else ())]
    for one, value in zip(measured, seconds, strict=True):
        one.add(variant, value)
        if variant == OURS:
            one.skipped, one.filters = run.skipped, run.filters


def _options() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return sorted({int(part) for part in text.split(",")})

    def scales(text: str) -> list[float]:
        return sorted({float(part) for part in text.split(",")})

    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--parts", type=names, default=list(PARTS), help=f"any of {','.join(PARTS)} (default: all)")
    add("--sizes", type=numbers, default=[10, 100], help="clustered: millions of rows (default: 10,100)")
    add("--scales", type=scales, default=[1.0, 10.0], help="TPC-H: scale factors (default: 1,10)")
    add("--queries", type=names, help="TPC-H: some of q01 to q22 (default: all)")
    add("--star-size", type=int, default=10, help="star: millions of facts (default: %(default)s)")
    add("--useless-size", type=int, default=10, help="useless: millions of rows (default: %(default)s)")
    add("--tap-size", type=int, default=3, help="tap: millions of distinct keys (default: %(default)s)")
    add(
        "--strategies",
        type=names,
        default=list(STRATEGIES),
        help=f"any of {','.join(STRATEGIES)} (default: all)",
    )
    add("--variants", type=names, default=list(VARIANTS), help=f"any of {','.join(VARIANTS)} (default: all)")
    add("--repeats", type=int, default=5, help="rounds of all variants (default: %(default)s)")
    add("--pairs", type=int, default=15, help="rounds of the parts useless and tap (default: %(default)s)")
    add(
        "--budget",
        type=float,
        default=900,
        help=f"seconds for a query's rounds, at least {LEAST_ROUNDS} of them (default: %(default)s)",
    )
    add("--warm-up", type=int, default=6, help="runs on small tables beforehand (default: %(default)s)")
    add(
        "--bloom-build",
        default="10MB",
        help="largest build side of Spark's own filters (default: %(default)s)",
    )
    add("--only-data", action="store_true", help="make the tables, measure nothing")
    add("--keep", action="store_true", help="keep in the report what only an earlier run has measured")
    add(
        "--data",
        type=Path,
        default=DEFAULT_DATA,
        help="where the tables are or will be (default: .data/joins)",
    )
    add(
        "--out",
        type=Path,
        default=layouts.ROOT / "docs" / "bench",
        help="folder of the report (default: docs/bench)",
    )
    options = parser.parse_args()
    options.data = options.data.resolve()
    for name, known in (("parts", PARTS), ("strategies", tuple(STRATEGIES)), ("variants", VARIANTS)):
        if unknown := [value for value in getattr(options, name) if value not in known]:
            parser.error(f"--{name}: unknown {', '.join(unknown)}; choose from {', '.join(known)}")
    if STOCK not in options.variants:
        parser.error("--variants: everything is compared with stock")
    return options


def main() -> None:
    """Runs the benchmark, prints the report, and fails if any query failed or any two answers differ."""
    options = _options()
    results = JoinBenchmark(options).run()
    if options.only_data:
        return
    results.write(options.out)
    if join_report.plot(results, options.out) is None:
        print("no plot: it needs matplotlib", file=sys.stderr)
    print(results.markdown())
    if results.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

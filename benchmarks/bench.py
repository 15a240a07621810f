"""TopK filters against stock Spark and against a perfect static predicate: ``python benchmarks/bench.py``."""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import layouts
import report
import runs
from environment import environment
from progress import Step, step
from queries import SCALING, UNPRUNABLE, USELESS, Query
from results import Cell, Pairs, comparable_plan
from runs import FIRST, ORACLE, REPEATED, STOCK, VARIANTS

PARTS = ("scaling", "useless", "plugin")
HERE = Path(__file__).resolve().parent
STOCK_CHECK_PROCESSES = 3  # of each kind; a process has a speed of its own, so one would say little


class Benchmark:
    """One run: fresh processes first, while no other JVM holds memory; then what one session can do."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Takes the parsed command line."""
        self.options = options
        self.tables = [(layout, size) for layout in options.layouts for size in options.sizes]
        queries = {query.name: query.sql("hits") for query in (*SCALING, *USELESS, *UNPRUNABLE)}
        self.results = report.Results(environment(), queries)
        if "scaling" in options.parts:
            self.results.cells = [Cell(query.name, *table) for query, table in product(SCALING, self.tables)]
        self.first_answers: dict[tuple[str, str, int], list[Any]] = {}

    def run(self) -> report.Results:
        """Measures all that was asked for, writing the report after every stage."""
        self._make_data()
        scaling, useless, plugin = (part in self.options.parts for part in PARTS)
        if scaling and FIRST in self.options.variants:
            self._first_runs()
        if plugin and REPEATED in self.options.variants:
            self._is_stock_stock()
        filters = FIRST in self.options.variants or REPEATED in self.options.variants
        spark = runs.session("benchmark", plugin=filters)
        try:
            self._warm_up(spark, filters)
            if scaling:
                for (layout, size), query in product(self.tables, SCALING):
                    self._compare(spark, query, layout, size)
            if useless and REPEATED in self.options.variants:
                self._useless(spark)
        finally:
            spark.stop()
        return self.results

    def _make_data(self) -> None:
        command = [sys.executable, str(HERE / "layouts.py"), "--data", str(self.options.data)]
        sizes = {*self.options.sizes, self.options.useless_size}
        command += ["--sizes", ",".join(map(str, sorted(sizes)))]
        command += [
            "--layouts",
            ",".join(dict.fromkeys([*self.options.layouts, self.options.useless_layout])),
        ]
        # A process of its own: Spark's settings for writing must not reach the sessions that are measured.
        subprocess.run(command, check=True)

    # --- fresh processes ---

    def _worker(self, mode: str, query: Query, tables: list[tuple[str, int]], *extra: str) -> Any:
        names = ",".join(f"{layout}:{size}" for layout, size in tables)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "result.pickle"
            command = [sys.executable, str(HERE / "worker.py"), mode, "--data", str(self.options.data)]
            command += ["--query", query.name, "--tables", names, "--out", str(out), *extra]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f"the {mode} process failed:\n{done.stderr}")
            return pickle.loads(out.read_bytes())

    def _first_runs(self) -> None:
        with step("first runs, in fresh processes") as progress:
            for repeat, query in product(range(self.options.first_repeats), SCALING):
                progress.note(f"{query.name}, process {repeat + 1} of {self.options.first_repeats}")
                turn = repeat % len(self.tables)  # so that no table is always the first
                found = self._worker("first", query, [*self.tables[turn:], *self.tables[:turn]])
                for (layout, size), run in found.items():
                    self._cell(query, layout, size).add(FIRST, run.seconds, run.skipped)
                    self.first_answers[query.name, layout, size] = run.rows
        self.results.write(self.options.out)

    def _is_stock_stock(self) -> None:
        layout, size = self.options.layouts[0], min(self.options.sizes)
        with step("stock with and without the plugin, in fresh processes") as progress:
            for query in SCALING:
                pairs = Pairs(query.name, "", f"{layout}, {size}M")
                for process in range(STOCK_CHECK_PROCESSES):
                    progress.note(f"{query.name}, pair {process + 1} of {STOCK_CHECK_PROCESSES}")
                    table, repeats = [(layout, size)], ("--repeats", str(self.options.repeats))
                    plain, plain_plan = self._worker("plain", query, table, *repeats)
                    off, off_plan = self._worker("off", query, table, *repeats)
                    pairs.base += plain
                    pairs.other += off
                same = comparable_plan(plain_plan) == comparable_plan(off_plan)
                pairs.why = "plans are the same" if same else "plans differ"
                if not same:
                    self._problem(
                        f"{query.name}: with enabled=false the plan differs from one without the plugin"
                    )
                self.results.without_plugin.append(pairs)
        self.results.write(self.options.out)

    # --- one session ---

    def _warm_up(self, spark: SparkSession, filters: bool) -> None:
        """Runs all on small tables until it is compiled, or the first table measured would pay for it."""
        with step("warming up"):
            for layout, query in product(self.options.layouts, SCALING):
                folder = layouts.warm_up_table(self.options.data, layout)
                sql = query.sql(runs.register(spark, f"warm_up_{layout}", folder))
                oracle = query.oracle_sql(f"warm_up_{layout}", runs.run(spark, sql, filters=False).rows)
                for _ in range(runs.WARM_UP_RUNS):
                    runs.run(spark, sql, filters=False)
                    runs.run(spark, oracle, filters=False)
                    if filters:
                        runs.run(spark, sql, filters=True)

    def _compare(self, spark: SparkSession, query: Query, layout: str, size: int) -> None:
        cell = self._cell(query, layout, size)
        name = f"{query.name}, {layout}, {size}M rows"
        with step(name) as progress:
            table = self._register(spark, layouts.table(self.options.data, layout, size), progress)
            progress.note("warming up")
            sql = query.sql(table)
            expected = runs.run(spark, sql, filters=False).rows
            texts = {STOCK: sql, ORACLE: query.oracle_sql(table, expected), REPEATED: sql}
            variants = [variant for variant in texts if variant in self.options.variants]
            for variant in variants * 2:
                self._checked(
                    spark, query, texts[variant], variant == REPEATED, expected, f"{name}, {variant}"
                )
            if (first := self.first_answers.get((query.name, layout, size))) is not None:
                self._same(query, expected, first, f"{name}, first run")
            for i in range(self.options.repeats):
                progress.note(f"round {i + 1} of {self.options.repeats}")
                turn = i % len(variants)
                for variant in [*variants[turn:], *variants[:turn]]:
                    filters = variant == REPEATED
                    run = self._checked(spark, query, texts[variant], filters, expected, f"{name}, {variant}")
                    cell.add(variant, run.seconds, run.skipped)
        seconds = ", ".join(
            f"{variant} {cell.median(variant):.3f} s" for variant in VARIANTS if cell.median(variant)
        )
        print(f"{name}: {seconds}", flush=True)
        self.results.write(self.options.out)

    def _useless(self, spark: SparkSession) -> None:
        layout, size = self.options.useless_layout, self.options.useless_size
        folders = {
            f"{layout}, {size}M": (layouts.table(self.options.data, layout, size), USELESS),
            "unprunable": (layouts.unprunable_table(self.options.data), UNPRUNABLE),
        }
        for label, (folder, queries) in folders.items():
            if queries is UNPRUNABLE:
                # Two tasks would be a second chance: the better rows of one make the other's prunable.
                spark.conf.set("spark.sql.files.minPartitionNum", "1")
            for query in queries:
                with step(f"{query.name}, {label}") as progress:
                    table = self._register(spark, folder, progress)
                    pairs = self._pairs(spark, query, table, label, progress)
                low, high = pairs.interval
                print(f"{query.name}, {label}: ratio {pairs.ratio:.3f} ({low:.3f} to {high:.3f})", flush=True)
                self.results.useless.append(pairs)
                self.results.write(self.options.out)

    def _pairs(self, spark: SparkSession, query: Query, table: str, label: str, progress: Step) -> Pairs:
        pairs = Pairs(query.name, query.why, label)
        sql = query.sql(table)
        expected = runs.run(spark, sql, filters=False).rows
        for filters in (True, False, True):
            self._checked(spark, query, sql, filters, expected, query.name)
        for i in range(self.options.useless_repeats):
            progress.note(f"pair {i + 1} of {self.options.useless_repeats}")
            seconds = {}
            for filters in (
                (False, True) if i % 2 else (True, False)
            ):  # neither is always the first of its pair
                run = self._checked(spark, query, sql, filters, expected, query.name)
                seconds[filters] = run.seconds
                pairs.skipped = run.skipped or pairs.skipped
            pairs.base.append(seconds[False])
            pairs.other.append(seconds[True])
        return pairs

    def _register(self, spark: SparkSession, folder: Path, progress: Step) -> str:
        progress.note("reading the files into the page cache")
        runs.warm_page_cache(folder)
        return runs.register(spark, "hits_" + folder.name.replace("-", "_"), folder)

    def _checked(
        self, spark: SparkSession, query: Query, sql: str, filters: bool, expected: list[Any], name: str
    ) -> runs.Run:
        run = runs.run(spark, sql, filters=filters, report=filters)
        self._same(query, expected, run.rows, name)
        return run

    def _same(self, query: Query, expected: list[Any], actual: list[Any], name: str) -> None:
        if difference := query.difference(expected, actual):
            self._problem(f"{name}: {difference}")

    def _problem(self, text: str) -> None:
        if text not in self.results.problems:
            print(f"PROBLEM: {text}", file=sys.stderr, flush=True)
            self.results.problems.append(text)

    def _cell(self, query: Query, layout: str, size: int) -> Cell:
        wanted = (query.name, layout, size)
        return next(cell for cell in self.results.cells if (cell.query, cell.layout, cell.millions) == wanted)


def _options() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return sorted({int(part) for part in text.split(",")})

    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--parts", type=names, default=list(PARTS), help="any of scaling,useless,plugin (default: all)")
    add("--sizes", type=numbers, default=[2, 8, 32], help="millions of rows (default: 2,8,32)")
    add(
        "--layouts",
        type=names,
        default=list(layouts.LAYOUTS),
        help="any of int96,int64,pyarrow (default: all)",
    )
    add(
        "--variants",
        type=names,
        default=list(VARIANTS),
        help="any of stock,oracle,first,repeated (default: all)",
    )
    add("--repeats", type=int, default=5, help="rounds of stock, oracle and repeated (default: %(default)s)")
    add("--first-repeats", type=int, default=5, help="fresh processes per query (default: %(default)s)")
    add(
        "--useless-repeats",
        type=int,
        default=21,
        help="pairs per useless case (default: %(default)s)",
    )
    add(
        "--useless-size",
        type=int,
        default=8,
        help="millions of rows of the useless cases (default: %(default)s)",
    )
    add(
        "--useless-layout",
        default="int64",
        choices=layouts.LAYOUTS,
        help="their files (default: %(default)s)",
    )
    add(
        "--data",
        type=Path,
        default=layouts.DEFAULT_DATA,
        help="where the tables are or will be (default: .data/weblog)",
    )
    add(
        "--out",
        type=Path,
        default=layouts.ROOT / "docs" / "bench",
        help="folder of the report (default: docs/bench)",
    )
    options = parser.parse_args()
    options.data = options.data.resolve()
    for name, known in (("parts", PARTS), ("layouts", layouts.LAYOUTS), ("variants", VARIANTS)):
        if unknown := [value for value in getattr(options, name) if value not in known]:
            parser.error(f"--{name}: unknown {', '.join(unknown)}; choose from {', '.join(known)}")
    return options


def main() -> None:
    """Runs the benchmark, prints the report, and fails if any two answers differ."""
    options = _options()
    results = Benchmark(options).run()
    results.write(options.out)
    if report.plot(results, options.out) is None:
        print("no plot: it needs matplotlib", file=sys.stderr)
    print(results.markdown())
    if results.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""TopK filters against stock Spark and against a perfect static predicate: ``python benchmarks/bench.py``."""

from __future__ import annotations

import argparse
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import layouts
import runs
from benchmark import Benchmark, Options
from progress import Step, step
from queries import SCALING, UNPRUNABLE, USELESS, Query
from results import Pairs, rounds
from runs import FIRST, ORACLE, REPEATED, SECOND, STOCK, VARIANTS, Run
from topk_report import Cell, TopKReport

PARTS = ("scaling", "useless", "plugin")
HERE = Path(__file__).resolve().parent
STOCK_CHECK_PROCESSES = 3  # of each kind; a process has a speed of its own, so one would say little


class TopKBenchmark(Benchmark):
    """One run: fresh processes first, while no other JVM holds memory; then what one session can do."""

    report: TopKReport

    def __init__(self, options: argparse.Namespace) -> None:
        """Takes the parsed command line."""
        texts = {query.name: query.sql("hits") for query in (*SCALING, *USELESS, *UNPRUNABLE)}
        super().__init__(options, TopKReport(texts))
        self.tables = [(layout, size) for layout in options.layouts for size in options.sizes]
        self.cells = {
            (query.name, *table): Cell(query.name, *table) for query, table in product(SCALING, self.tables)
        }
        self.first_answers: dict[tuple[str, str, int], list[Any]] = {}

    def run(self) -> None:
        """Measures all that was asked for, writing the report after every stage."""
        self._make_data()
        scaling, useless, plugin = (part in self.options.parts for part in PARTS)
        if scaling:
            self.report.cells = list(self.cells.values())
        if scaling and FIRST in self.options.variants:
            self._first_runs()
        if plugin and REPEATED in self.options.variants:
            self._is_stock_stock()
        filters = FIRST in self.options.variants or REPEATED in self.options.variants
        self.spark = runs.session("benchmark", plugin=filters)
        try:
            self._warm_up(filters)
            if scaling:
                for (layout, size), query in product(self.tables, SCALING):
                    self._compare(query, layout, size)
            if useless and REPEATED in self.options.variants:
                self._useless()
        finally:
            self.spark.stop()

    def _make_data(self) -> None:
        sizes = sorted({*self.options.sizes, self.options.useless_size})
        wanted = dict.fromkeys([*self.options.layouts, self.options.useless_layout])
        layouts.make_apart(self.options.data, list(wanted), sizes)

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
        repeats = self.options.first_repeats
        with step("first runs, in fresh processes") as progress:
            for repeat, tables in rounds(self.tables, repeats):
                for query in SCALING:
                    progress.note(f"{query.name}, process {repeat + 1} of {repeats}")
                    for table, (first, second) in self._worker("first", query, list(tables)).items():
                        self._add(self.cells[query.name, *table], FIRST, first)
                        self._add(self.cells[query.name, *table], SECOND, second)
                        self.first_answers[query.name, *table] = first.rows
        self.report.write(self.options.out)

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
                same = _comparable(plain_plan) == _comparable(off_plan)
                pairs.why = "plans are the same" if same else "plans differ"
                if not same:
                    self.report.problem(
                        f"{query.name}: with enabled=false the plan differs from one without the plugin"
                    )
                self.report.without_plugin.append(pairs)
        self.report.write(self.options.out)

    # --- one session ---

    def _warm_up(self, filters: bool) -> None:
        """Runs all on small tables until it is compiled, or the first table measured would pay for it."""
        with step("warming up") as progress:
            for layout, query in product(self.options.layouts, SCALING):
                folder = layouts.warm_up_table(self.options.data, layout)
                table = self.register(f"warm_up_{layout}", folder, progress)
                sql = query.sql(table)
                oracle = query.oracle_sql(table, runs.run(self.spark, sql, filters=False).rows)
                for _ in range(runs.WARM_UP_RUNS):
                    runs.run(self.spark, sql, filters=False)
                    runs.run(self.spark, oracle, filters=False)
                    if filters:
                        runs.run(self.spark, sql, filters=True)

    def _compare(self, query: Query, layout: str, size: int) -> None:
        cell = self.cells[query.name, layout, size]
        name = f"{query.name}, {layout}, {size}M rows"
        with step(name) as progress:
            folder = layouts.table(self.options.data, layout, size)
            table = self.register(_view(folder), folder, progress)
            sql = query.sql(table)
            expected = runs.run(self.spark, sql, filters=False).rows
            texts = {STOCK: sql, ORACLE: query.oracle_sql(table, expected), REPEATED: sql}
            texts = {variant: text for variant, text in texts.items() if variant in self.options.variants}
            if (first := self.first_answers.get((query.name, layout, size))) is not None:
                self._same(query, expected, first, f"{name}, first run")
            self._turns(query, name, texts, expected, self.options.repeats, progress, cell)
        print(f"{name}: {cell.text()}", flush=True)
        self.report.write(self.options.out)

    def _useless(self) -> None:
        layout, size = self.options.useless_layout, self.options.useless_size
        folders = {
            f"{layout}, {size}M": (layouts.table(self.options.data, layout, size), USELESS),
            "unprunable": (layouts.unprunable_table(self.options.data), UNPRUNABLE),
        }
        for label, (folder, queries) in folders.items():
            runs.warm_page_cache(folder)  # other tables may have pushed it out
            if queries is UNPRUNABLE:
                # Two tasks would be a second chance: the better rows of one make the other's prunable.
                self.spark.conf.set("spark.sql.files.minPartitionNum", "1")
            for query in queries:
                cell, name = Cell(query.name, label, size), f"{query.name}, {label}"
                with step(name) as progress:
                    sql = query.sql(self.register(_view(folder), folder, progress))
                    expected = runs.run(self.spark, sql, filters=False).rows
                    texts = {STOCK: sql, REPEATED: sql}
                    count = self.options.useless_repeats
                    self._turns(query, name, texts, expected, count, progress, cell)
                base, other = cell.seconds[STOCK], cell.seconds[REPEATED]
                pairs = Pairs(query.name, query.why, label, base, other, cell.skipped.get(REPEATED))
                print(f"{name}: ratio {pairs.text()}", flush=True)
                self.report.useless.append(pairs)
                self.report.write(self.options.out)

    def _turns(
        self,
        query: Query,
        name: str,
        texts: Mapping[str, str],
        expected: list[Any],
        count: int,
        progress: Step,
        cell: Cell,
    ) -> None:
        """Runs the variants' texts by turns, twice to warm up, and adds ``count`` rounds to ``cell``."""
        for i, variants in rounds(list(texts), count + 2):
            progress.note(f"round {i - 1} of {count}" if i > 1 else "warming up")
            for variant in variants:
                filters = variant == REPEATED
                run = runs.run(self.spark, texts[variant], filters=filters, report=filters)
                self._same(query, expected, run.rows, f"{name}, {variant}")
                if i > 1:
                    self._add(cell, variant, run)

    @staticmethod
    def _add(cell: Cell, variant: str, run: Run) -> None:
        cell.add(variant, run.seconds)
        if run.skipped is not None:
            cell.skipped[variant] = run.skipped

    def _same(self, query: Query, expected: list[Any], actual: list[Any], name: str) -> None:
        if difference := query.difference(expected, actual):
            self.report.problem(f"{name}: {difference}")


def _view(folder: Path) -> str:
    return "hits_" + folder.name.replace("-", "_")


def _comparable(plan: str) -> str:
    """A plan without what differs from one session to the next: ids of expressions and nodes."""
    return re.sub(r"#\d+L?|plan_id=\d+|id=#?\d+", "#", plan)


def main() -> None:
    """Runs the benchmark, prints the report, and fails if any two answers differ."""
    parser = Options(__doc__, data="weblog")
    parser.names("parts", PARTS)
    parser.numbers("sizes", int, [2, 8, 32], "millions of rows")
    parser.names("layouts", layouts.LAYOUTS)
    parser.names("variants", VARIANTS)
    parser.number("repeats", 5, "rounds of stock, oracle and repeated")
    parser.number("first-repeats", 5, "fresh processes per query")
    parser.number("useless-repeats", 21, "pairs per useless case")
    parser.number("useless-size", 8, "millions of rows of the useless cases")
    parser.add_argument("--useless-layout", default="int64", choices=layouts.LAYOUTS, help="their files")
    benchmark = TopKBenchmark(parser.parsed())
    benchmark.run()
    benchmark.report.finish(benchmark.options.out)


if __name__ == "__main__":
    main()

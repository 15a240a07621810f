"""What filters cost where they are of no use: ``python benchmarks/bench_cost.py``.

Each query runs four times a round, by turns: stock, with filters, and both again. The ratio of the two
stock runs (A/A) shows what this machine can tell at all. A target of 3 % is met where ours lies within the
A/A interval plus 3 %, and undecided where the A/A interval alone is wider than that.

Wall time, and processor time of the JVM's threads, which are driver and tasks, without those that compile or
collect garbage.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import bench_formats
import datafiles
import join_queries
import layouts
import queries
import runs
from join_queries import OURS
from paired import AGAIN, VARIANTS, WITH_FILTERS, Paired
from processor import UNITS, Threads
from progress import step
from results import rounds
from runs import STOCK

LIMIT = 0.03
SHORT = "SELECT k, score FROM big WHERE k < 100 ORDER BY score LIMIT 5"
SHORT_JOIN = "SELECT count(*) FROM small s JOIN small t ON s.k = t.k WHERE t.rank < 10"


@dataclass(frozen=True)
class Case:
    """A query whose filters leave out nothing, or next to nothing."""

    part: str
    name: str
    sql: str
    views: Mapping[str, Path]
    confs: Mapping[str, str] = field(default_factory=dict)
    format: str = "parquet"
    schema: str | None = None
    repeats: int = 1


class Cost(Paired):
    """Seconds of all runs of a case."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def verdict(self, unit: str) -> str:
        """Whether ours is at most 3 % above what A/A shows by itself."""
        low, high = self.pairs(unit, AGAIN).interval
        if self.pairs(unit, OURS).ratio <= max(high, 1) + LIMIT:
            return (
                "yes" if high - low <= 2 * LIMIT or self.pairs(unit, OURS).ratio <= 1 + LIMIT else "undecided"
            )
        return "no"

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        found: dict[str, Any] = {"part": self.case.part, "name": self.case.name, "seconds": self.seconds}
        for unit in UNITS:
            ours, again = self.pairs(unit, OURS), self.pairs(unit, AGAIN)
            found[unit] = {
                "medians": [self.median(unit, STOCK), self.median(unit, OURS)],
                "ours / stock": ours.ratio,
                "A/A interval": again.interval,
                "met": self.verdict(unit),
            }
        return found


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=["topk", "join", "tap", "short", "formats"])
    parser.add_argument("--cases", nargs="*", help="names, or beginnings of names")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--rows", type=int, default=10, help="millions of rows of joins")
    parser.add_argument("--log", type=int, default=8, help="millions of rows of the web log")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = datafiles.DATA / "joins"
    if "topk" in options.parts:
        layouts.make_apart(layouts.DEFAULT_DATA, ["int64"], [options.log])
    spark = runs.session("benchmark of costs", {**runs.LARGE, **runs.STEADY, **runs.shuffles_in_memory()})
    threads = Threads(int(spark._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]
    costs = []
    try:
        for case in _cases(spark, data, options):
            if options.cases and not case.name.startswith(tuple(options.cases)):
                continue
            costs.append(_measure(spark, threads, case, options.rounds))
            print(_line(costs[-1]), flush=True)
            # What was measured in an hour is not lost with the last case.
            if options.out:
                _write(costs, options.out)
    finally:
        spark.stop()


def _write(costs: list[Cost], out: Path) -> None:
    report = {"environment": runs.environment(), "costs": [cost.as_dict() for cost in costs]}
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(_page(report) + "\n", encoding="utf-8")


def _cases(spark: SparkSession, data: Path, options: argparse.Namespace) -> Iterator[Case]:
    rows = options.rows * join_queries.MILLION
    if "topk" in options.parts:
        log = {"log": layouts.table(layouts.DEFAULT_DATA, "int64", options.log)}
        yield from (Case("topk", q.name, q.sql("log"), log) for q in queries.USELESS)
    joins = []
    if "join" in options.parts:
        joins += join_queries.useless(data, rows, ["broadcast", "merge", "shuffle_hash"])
    if "tap" in options.parts:
        joins += join_queries.tap(data, 3 * join_queries.MILLION)
    yield from (Case(c.part, c.name, c.sql, c.views, c.confs) for c in joins)
    if "short" in options.parts:
        (clustered,) = join_queries.clustered(data, rows, ["broadcast"])
        for name, text in (("short TopK", SHORT), ("short join", SHORT_JOIN)):
            yield Case("short", name, text, clustered.views, repeats=10)
    if "formats" in options.parts:
        folder = datafiles.DATA / "formats"
        if not (folder / "keys").exists():
            bench_formats.write(spark, folder, 3_000_000)
        spark.read.parquet(str(folder / "keys")).createOrReplaceTempView("keys")
        for table, kind in bench_formats.TABLES.items():
            views = {"large": folder / table}
            text = bench_formats.QUERY.replace("small", "(SELECT j FROM keys WHERE g >= 0)")
            yield Case("formats", table, text, views, bench_formats.SHUFFLED, kind, bench_formats.COLUMNS)


def _measure(spark: SparkSession, threads: Threads, case: Case, turns: int) -> Cost:
    for name, folder in case.views.items():
        reader = spark.read.format(case.format)
        reader = reader.schema(case.schema) if case.schema else reader
        reader.load(str(folder)).createOrReplaceTempView(name)
    cost = Cost(case)
    with runs.settings(spark, case.confs), step(f"{case.part}, {case.name}") as progress:
        for round_, order in rounds(VARIANTS, turns + 2):  # the first ones warm up
            used = {}
            for variant in order:
                progress.note(f"round {round_}, {variant}")
                runs.collect_garbage(spark)
                _, seconds = threads.measured(lambda variant=variant: _repeat(spark, case, variant))
                used[variant] = {unit: value / case.repeats for unit, value in seconds.items()}
            if round_ > 1:
                cost.add(used)
    return cost


def _repeat(spark: SparkSession, case: Case, variant: str) -> None:
    for _ in range(case.repeats):
        runs.run(spark, case.sql, filters=variant in WITH_FILTERS)


def _line(cost: Cost) -> str:
    found = [f"{cost.case.part}, {cost.case.name}:"]
    for unit in UNITS:
        ours, again = cost.pairs(unit, OURS), cost.pairs(unit, AGAIN)
        stock, own = cost.median(unit, STOCK), cost.median(unit, OURS)
        found.append(
            f"{unit} {stock:.3f} {own:.3f} s, {ours.text()}, A/A {again.text()}, {cost.verdict(unit)};"
        )
    return " ".join(found).removesuffix(";")


def _page(report: Mapping[str, Any]) -> str:
    lines = ["# What filters cost where they are of no use", ""]
    lines += [runs.environment_text(report["environment"]) + "."]
    lines += ["Ratios to stock, medians of pairs; A/A is stock against itself, 95 % interval.", ""]
    lines += ["| part | query | unit | stock, s | ours, s | ours / stock | A/A | within 3 % |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for cost in report["costs"]:
        for unit in UNITS:
            found = cost[unit]
            stock, ours = found["medians"]
            low, high = found["A/A interval"]
            lines.append(
                f"| {cost['part']} | {cost['name']} | {unit} | {stock:.3f} | {ours:.3f} "
                f"| {found['ours / stock']:.3f} | {low:.3f} to {high:.3f} | {found['met']} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""All queries of TPC-DS and TPC-H against stock Spark: ``python benchmarks/bench_tpc.py tpcds --scale 1``.

Each query runs by turns: stock, with filters, both again and, if asked for, stock with Spark's own bloom
filter forced on. Wall time, and processor time of driver and tasks. The two stock runs (A/A) show what this
machine can tell: a query is "slower" where ours is below 0.97 of stock's speed in both units and outside of
the A/A interval.

All queries run once a round, so that each meets a JVM that has compiled what all of them share: measured
one after the other, A/A alone showed 20 %. The report is written after every query. What it has is not
measured again: a run may be cut in parts, each of which warms up anew.

``--single`` runs stock and ours once a round, without A/A, for scales at which a round takes long.
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import datafiles
import join_queries
import runs
import tpcds
import tpch
from join_queries import BLOOM, OURS
from paired import AGAIN, VARIANTS, WITH_FILTERS, Paired
from processor import UNITS, WALL, Threads
from progress import step
from results import rotated, rounds
from runs import STOCK

SUITES = {"tpcds": tpcds, "tpch": tpch}
#: Of stock's speed.
LEAST = 0.97


def main() -> None:
    """Measures what the command line asks for, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--queries", nargs="*", help="some of them: q01 q17")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before, in every part")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no further query after so many")
    parser.add_argument("--single", action="store_true", help="stock and ours once a round, without A/A")
    parser.add_argument("--bloom", action="store_true", help="also stock with its own bloom filter forced on")
    parser.add_argument("--out", type=Path, help="JSON; the page beside it. Default: build/bench")
    options = parser.parse_args()
    out = options.out or datafiles.ROOT / "build" / "bench" / f"{options.suite}-{options.scale:g}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    report = read(out)
    suite = SUITES[options.suite]
    tables, texts = suite.tables(datafiles.DATA, options.scale), suite.queries(options.scale)
    wanted = options.queries or list(texts)
    variants = [*((STOCK, OURS) if options.single else VARIANTS), *([BLOOM] if options.bloom else [])]
    settings = {**runs.LARGE, **runs.STEADY, **(runs.shuffles_in_memory() if options.scale <= 1 else {})}
    spark = runs.session(f"benchmark of {options.suite}", settings)
    threads = Threads(int(spark._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]
    end = time.monotonic() + 60 * options.minutes
    try:
        for name, folder in tables.items():
            runs.warm_page_cache(folder)
            runs.register(spark, name, folder)
        for round_, turn in rounds(variants, options.warm_up + options.rounds):
            with step(f"{options.suite} {options.scale:g}, round {round_}") as progress:
                for number, name in enumerate(wanted):
                    # One round alone would favour a variant that runs second in all queries.
                    order = rotated(turn, number)
                    if time.monotonic() > end or rounds_of(report, name) >= options.rounds:
                        continue
                    progress.note(name)
                    used, problem = measure(spark, threads, texts[name], order)
                    if problem:
                        report["problems"][name] = problem
                    if used and round_ >= options.warm_up:
                        report["queries"].setdefault(name, Paired()).add(used)
                        write(out, report)
            out.with_suffix(".md").write_text(page(options.suite, options.scale, report), encoding="utf-8")
    finally:
        spark.stop()
    print("\n".join(f"{name}: {_line(query)}" for name, query in sorted(report["queries"].items())))
    print("\n".join(summary(report["queries"])))


def read(out: Path) -> dict[str, Any]:
    """The report of an earlier part, or an empty one."""
    if not out.exists():
        return {"environment": runs.environment(), "queries": {}, "problems": {}}
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {**report, "queries": {name: Paired(of) for name, of in report["queries"].items()}}


def write(out: Path, report: Mapping[str, Any]) -> None:
    """For the next part."""
    found = {**report, "queries": {name: of.seconds for name, of in report["queries"].items()}}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def rounds_of(report: Mapping[str, Any], name: str) -> int:
    """How often a query has been measured."""
    return len(report["queries"][name].seconds[WALL][STOCK]) if name in report["queries"] else 0


def measure(
    spark: SparkSession, threads: Threads, text: str, order: Sequence[str]
) -> tuple[dict[str, dict[str, float]], str | None]:
    """Seconds of one round of a query by variant and unit, none if it failed; and what was wrong with it."""
    used: dict[str, dict[str, float]] = {}
    answers: dict[str, list[str]] = {}
    runs.collect_garbage(spark)
    for variant in order:
        own = join_queries.BLOOM_CONFS if variant == BLOOM else {}
        try:
            with runs.settings(spark, own):
                ran, used[variant] = threads.measured(
                    lambda variant=variant: runs.run(spark, text, filters=variant in WITH_FILTERS)
                )
            answers[variant] = _comparable(ran.rows)
        except (PySparkException, Py4JJavaError) as error:
            return {}, f"{variant} failed: {str(error).splitlines()[0]}"
    differ = [v for v in order if answers[v] != answers[STOCK]]
    if AGAIN in differ:
        return used, "the rows are not the same in two runs of stock: ties"
    return used, f"the rows differ from stock's: {', '.join(differ)}" if differ else None


def _comparable(rows: Sequence[Any]) -> list[str]:
    """Rows in an order of their own; floating-point numbers to nine digits, as sums depend on their order."""
    return sorted(str([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)


def is_slower(query: Paired) -> bool:
    """Whether ours is slower than stock, by more than A/A shows where it was measured, in both units."""

    def chance(unit: str) -> float:
        return query.pairs(unit, AGAIN).interval[1] if query.has(AGAIN) else 1.0

    return all(query.pairs(unit, OURS).ratio > max(1 / LEAST, chance(unit)) for unit in UNITS)


def _ratio(query: Paired, unit: str, variant: str) -> str:
    if not query.has(variant):
        return "not measured"
    pairs = query.pairs(unit, variant)
    return pairs.text() if len(pairs.ratios) > 1 else f"{pairs.ratio:.3f}"


def _line(query: Paired) -> str:
    parts = []
    for unit in UNITS:
        parts.append(f"{unit} {query.median(unit, STOCK):.3f} {query.median(unit, OURS):.3f} s")
        parts.append(f"ours {_ratio(query, unit, OURS)}, A/A {_ratio(query, unit, AGAIN)}")
    return "; ".join(parts) + ("; SLOWER" if is_slower(query) else "")


def summary(queries: Mapping[str, Paired]) -> list[str]:
    """Sums, means and what is slower, a line each."""
    if not queries:
        return []
    lines = []
    for unit in UNITS:
        sums = {
            variant: sum(of.median(unit, variant) for of in queries.values())
            for variant in (STOCK, OURS, BLOOM)
            if all(of.has(variant) for of in queries.values())
        }
        speeds = [1 / of.pairs(unit, OURS).ratio for of in queries.values()]
        mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
        lines.append(
            f"{unit}: sum of {len(queries)} queries {', '.join(f'{v} {s:.1f} s' for v, s in sums.items())}; "
            f"stock / ours {sums[STOCK] / sums[OURS]:.2f}, geometric mean {mean:.2f}, "
            f"{sum(s >= 1.5 for s in speeds)} at least 1.5 times faster, "
            f"{sum(s < LEAST for s in speeds)} below {LEAST}"
        )
    slower = [name for name, of in queries.items() if is_slower(of)]
    by_chance = ", beyond A/A" if all(of.has(AGAIN) for of in queries.values()) else ""
    return [*lines, f"slower in both units{by_chance}: {', '.join(slower) or 'none'}"]


def page(suite: str, scale: float, report: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {'TPC-DS' if suite == 'tpcds' else 'TPC-H'}, scale factor {scale:g}", ""]
    lines += [runs.environment_text(report["environment"]) + ".", ""]
    items = summary(report["queries"]) + [f"{name}: {text}" for name, text in report["problems"].items()]
    for item in items:
        lines += textwrap.wrap(f"* {item}", 100, subsequent_indent="  ")
    against = [v for v in (OURS, AGAIN, BLOOM) if any(of.has(v) for of in report["queries"].values())]
    title = {OURS: "ours / stock", AGAIN: "A/A", BLOOM: "its own bloom filter / stock"}
    columns = [(title[v] if unit == WALL else f"processor: {title[v]}") for unit in UNITS for v in against]
    lines += [
        "",
        "Seconds are medians; ratios those of pairs, with the interval of 95 %.",
        "",
    ]
    lines += [f"| {' | '.join(['query', 'stock, s', 'ours, s', *columns])} |"]
    lines += ["|" + "---|" * (3 + len(columns))]
    for name, query in sorted(report["queries"].items()):
        row = [name, f"{query.median(WALL, STOCK):.3f}", f"{query.median(WALL, OURS):.3f}"]
        row += [_ratio(query, unit, variant) for unit in UNITS for variant in against]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

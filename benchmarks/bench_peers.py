"""Spark, DuckDB and DataFusion on the same Parquet files: ``python benchmarks/bench_peers.py``.

Two threads each, warm page cache, by turns; seconds are medians, from the text to the collected rows. What
DuckDB and DataFusion have as defaults stays so. Spark is one process with two cores, stock and with filters
(repeated runs).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import datafiles
import join_queries
import layouts
import queries
import runs
from join_queries import Case
from progress import step
from results import rounds

STOCK, OURS, DUCKDB, DATAFUSION = "Spark", "Spark with filters", "DuckDB", "DataFusion"
ENGINES = (STOCK, OURS, DUCKDB, DATAFUSION)
PARTS = ("topk", "joins", "tpch")
#: Runs a query to its end; how many rows it has.
Engine = Callable[[str], int]


def main() -> None:
    """Measures what the command line asks for, and writes the page and its plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts", nargs="*", choices=PARTS, default=PARTS, help="what else the report has stays in it"
    )
    parser.add_argument("--log", type=int, default=8, help="millions of rows of the web log")
    parser.add_argument("--join", type=int, default=10, help="millions of rows of the joins' large sides")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H: scale factor")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=datafiles.ROOT / "docs" / "bench" / "peers.json")
    options = parser.parse_args()
    spark = runs.session("benchmark of peers")
    before = json.loads(options.out.read_text(encoding="utf-8"))["queries"] if options.out.exists() else []
    kept = [one for one in before if one["part"] not in options.parts]
    report: dict[str, Any] = {"environment": runs.environment() | _versions(), "queries": kept}
    try:
        for name, case in _cases(options):
            for folder in case.views.values():
                runs.warm_page_cache(folder)
            report["queries"].append(_measure(spark, name, case, options.rounds))
            print(_line(report["queries"][-1]), flush=True)
    finally:
        spark.stop()
    report["queries"].sort(key=lambda one: PARTS.index(one["part"]))
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(_page(report), encoding="utf-8")
    _draw(report, options.out.with_suffix(".png"))


def _versions() -> dict[str, str]:
    import datafusion
    import duckdb

    return {"DuckDB": duckdb.__version__, "DataFusion": datafusion.__version__}


def _cases(options: argparse.Namespace) -> list[tuple[str, Case]]:
    """By what they are reported as."""
    found: list[tuple[str, Case]] = []
    joins = datafiles.DATA / "joins"
    if "topk" in options.parts:
        log = {"log": layouts.table(layouts.DEFAULT_DATA, "int64", options.log)}
        cases = [Case("topk", q.name, options.log, q.sql("log"), log) for q in queries.SCALING]
        found += [(f"{c.name}, {c.label}", c) for c in cases]
    if "joins" in options.parts:
        rows = options.join * join_queries.MILLION
        made = [make(joins, rows, ["broadcast"]) for make in (join_queries.clustered, join_queries.star)]
        found += [(f"{c.part}, {c.label}", c) for cases in made for c in cases]
    if "tpch" in options.parts:
        found += [(f"TPC-H {c.name}", c) for c in join_queries.all_of_tpch(joins, options.scale)]
    return found


def _measure(spark: Any, title: str, case: Case, turns: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    rows: dict[str, int] = {}
    failed: dict[str, str] = {}
    with step(title) as progress:
        engines = _engines(spark, case)
        for round_, order in rounds(ENGINES, turns + 2):  # the first ones warm up
            for name in order:
                if name in failed:
                    continue
                progress.note(f"round {round_}, {name}")
                if name in (STOCK, OURS):
                    runs.collect_garbage(spark)
                start = time.perf_counter()
                try:
                    rows[name] = engines[name](case.sql)
                except Exception as error:
                    failed[name] = str(error).splitlines()[0][:200]
                    continue
                if round_ > 1:
                    seconds[name].append(time.perf_counter() - start)
    if len(set(rows.values())) > 1:
        failed["rows"] = f"not as many everywhere: {rows}"
    medians = {name: median(values) for name, values in seconds.items() if values}
    return {
        "part": case.part if case.part in PARTS else "joins",
        "query": title,
        "median seconds": medians,
        "seconds": seconds,
        "failed": failed,
    }


def _engines(spark: Any, case: Case) -> dict[str, Engine]:
    import datafusion
    import duckdb

    duck = duckdb.connect(config={"threads": runs.CORES})
    # As Spark's session here, and not DataFusion's default: names are as they are written.
    names = {"datafusion.sql_parser.enable_ident_normalization": "false"}
    fusion = datafusion.SessionContext(datafusion.SessionConfig(names).with_target_partitions(runs.CORES))
    for name, folder in case.views.items():
        duck.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/*.parquet')")
        fusion.register_parquet(name, str(folder))
        runs.register(spark, name, folder)

    def plain(sql: str) -> str:
        return re.sub(r"/\*\+.*?\*/", "", sql, flags=re.DOTALL)

    return {
        STOCK: lambda sql: len(runs.run(spark, sql, filters=False).rows),
        OURS: lambda sql: len(runs.run(spark, sql, filters=True).rows),
        DUCKDB: lambda sql: len(duck.execute(plain(sql)).fetchall()),
        DATAFUSION: lambda sql: sum(batch.num_rows for batch in fusion.sql(plain(sql)).collect()),
    }


def _line(result: Mapping[str, Any]) -> str:
    times = ", ".join(f"{name} {s:.3f} s" for name, s in result["median seconds"].items())
    return f"{result['query']}: {times}" + (f"; {result['failed']}" if result["failed"] else "")


def _page(report: Mapping[str, Any]) -> str:
    lines = ["# Beside DuckDB and DataFusion", "", "![seconds](peers.png)", ""]
    items = [f"{key} {value}" for key, value in report["environment"].items()]
    lines += [f"{', '.join(items[:5])},", f"{', '.join(items[5:])}.", ""]
    lines += ["The same Parquet files, two threads each; seconds, medians.", ""]
    lines += [f"| query | {' | '.join(ENGINES)} | with filters / DataFusion |", "|---|---|---|---|---|---|"]
    for one in report["queries"]:
        of = one["median seconds"]
        cells = [f"{of[name]:.3f}" if name in of else "failed" for name in ENGINES]
        ratio = f"{of[OURS] / of[DATAFUSION]:.2f}" if OURS in of and DATAFUSION in of else ""
        lines.append(f"| {one['query']} | {' | '.join(cells)} | {ratio} |")
    tpch_ = [one["median seconds"] for one in report["queries"] if one["part"] == "tpch"]
    if tpch_ and all(len(one) == len(ENGINES) for one in tpch_):
        sums = " | ".join(f"{sum(one[name] for one in tpch_):.1f}" for name in ENGINES)
        lines.append(f"| TPC-H, sum | {sums} | |")
    lines += [f"\n{one['query']}: {one['failed']}" for one in report["queries"] if one["failed"]]
    return "\n".join(lines) + "\n"


def _draw(report: Mapping[str, Any], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = report["queries"]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.42 * len(found)), dpi=110)
    for i, (name, color) in enumerate(
        zip(ENGINES, ("#9aa5b1", "#d9480f", "#f2c94c", "#2f80ed"), strict=True)
    ):
        places = [at + (i - 1.5) * 0.2 for at in range(len(found))]
        axes.barh(places, [one["median seconds"].get(name, 0) for one in found], 0.2, label=name, color=color)
    axes.set_yticks(range(len(found)), [one["query"] for one in found])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds, median")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()

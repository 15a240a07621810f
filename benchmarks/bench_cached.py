"""Cached tables: selective joins and TopKs on data in the cache: ``python benchmarks/bench_cached.py``.

The cached table is made of a range, in the order of its key (``clustered``) or in none (``scattered``,
where statistics of batches exclude nothing). Variants of each query, interleaved:

* ``stock``: filters off;
* ``ours``: filters on;
* ``oracle``: filters off, the range of the join's keys written into the query as a condition, for which Spark
  itself asks the batches' statistics. Only of joins.

Answers are compared. The cache is filled before.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import runs
from progress import step
from results import rounds

KEYS = 1_000
LAYOUTS = ("clustered", "scattered")
SUMS = "count(*) n, sum(b.v) v, max(b.s) s, max(b.u) u, sum(b.d) d, max(b.t) t"
JOIN = f"SELECT /*+ {{hint}} */ {SUMS} FROM {{table}} b JOIN keys k ON b.k = k.j"
QUERIES = {
    "broadcast join": JOIN.replace("{hint}", "BROADCAST(k)"),
    "shuffled join": JOIN.replace("{hint}", "MERGE(k)"),
    "topk": "SELECT * FROM {table} b ORDER BY k LIMIT 10",
    "topk, last rows first": "SELECT * FROM {table} b ORDER BY k DESC LIMIT 10",
    "useless join": f"SELECT /*+ BROADCAST(k) */ {SUMS} FROM {{table}} b JOIN every k ON b.g = k.j",
}


def main() -> None:
    """Measures what the command line asks for; writes JSON and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the cached table")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each variant, interleaved")
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS, help="of the cached table")
    parser.add_argument("--queries", nargs="*", default=[*QUERIES], help="of those that there are")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the results")
    options = parser.parse_args()
    results: dict[str, Any] = {"environment": runs.environment(), "rows": options.rows, "queries": []}
    spark = runs.session("benchmark of cached tables")
    try:
        keys = _tables(spark, options.rows)
        for table in options.layouts:
            cached = spark.sql(_table(table, options.rows)).cache()
            cached.createOrReplaceTempView(table)
            cached.count()
            for name in options.queries:
                results["queries"].append(_compare(spark, options.rounds, table, name, QUERIES[name], keys))
                _print(results["queries"][-1])
            cached.unpersist()
    finally:
        spark.stop()
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(_page(results), encoding="utf-8")


def _page(results: dict[str, Any]) -> str:
    environment = runs.environment_text(results["environment"])
    lines = ["# Cached tables", "", f"{environment}.", f"{results['rows']:,} rows, seconds, medians.", ""]
    lines += ["| table | query | stock | ours | oracle | stock / ours | batches left out |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in results["queries"]:
        medians, skipped = one["median seconds"], one["skipped"]
        oracle = f"{medians['oracle']:.3f}" if "oracle" in medians else ""
        lines.append(
            f"| {one['table']} | {one['query']} | {medians['stock']:.3f} | {medians['ours']:.3f} | {oracle} "
            f"| {medians['stock'] / medians['ours']:.2f} "
            f"| {skipped.get('row_groups_pruned')} of {skipped.get('row_groups_total')} |"
        )
    return "\n".join(lines) + "\n"


def _table(layout: str, rows: int) -> str:
    key = "id" if layout == "clustered" else f"pmod(xxhash64(id), {rows})"
    columns = (
        f"{key} AS k, {key} % 100 AS g, id % 97 AS v, concat('text ', id % 1000) AS s, "
        "concat('https://example.org/', hex(id * 7919)) AS u, id / 7D AS d, timestamp_micros(id * 1000) AS t"
    )
    return f"SELECT {columns} FROM range(0, {rows}, 1, 16)"


def _tables(spark: SparkSession, rows: int) -> list[int]:
    """Makes the build sides: keys of a fiftieth of the table's range, and all values of g."""
    start, step_ = rows // 2, rows // 50 // KEYS
    keys = [start + i * step_ for i in range(KEYS)]
    made = f"SELECT {start} + id * {step_} AS j FROM range({KEYS})"
    spark.sql(made).createOrReplaceTempView("keys")
    spark.sql("SELECT id AS j FROM range(100)").createOrReplaceTempView("every")
    return keys


def _compare(
    spark: SparkSession, turns: int, table: str, name: str, text: str, keys: list[int]
) -> dict[str, Any]:
    query = text.format(table=table)
    variants = {"stock": (query, False), "ours": (query, True)}
    if name in ("broadcast join", "shuffled join"):
        variants["oracle"] = (f"{query} WHERE b.k BETWEEN {keys[0]} AND {keys[-1]}", False)
    seconds: dict[str, list[float]] = {variant: [] for variant in variants}
    answers: dict[str, Any] = {}
    skipped: dict[str, int] = {}
    with step(f"{table}, {name}") as progress:
        for round_, order in rounds(list(variants), turns + 2):  # the first ones warm up
            for variant in order:
                progress.note(f"round {round_}, {variant}")
                text, filters = variants[variant]
                run = runs.run(spark, text, filters=filters, report=filters and round_ == turns)
                if round_ > 1:
                    seconds[variant].append(run.seconds)
                if run.skipped is not None:
                    skipped = run.skipped.as_dict()
                answers[variant] = sorted(row[0] for row in run.rows)
    if any(answer != answers["stock"] for answer in answers.values()):
        raise SystemExit(f"the answers differ: {answers}")
    medians = {variant: statistics.median(s) for variant, s in seconds.items()}
    return {"table": table, "query": name, "median seconds": medians, "seconds": seconds, "skipped": skipped}


def _print(result: dict[str, Any]) -> None:
    medians = result["median seconds"]
    times = ", ".join(f"{variant} {seconds:.3f} s" for variant, seconds in medians.items())
    skipped = result["skipped"]
    print(
        f"{result['table']}, {result['query']}: {times}; {medians['stock'] / medians['ours']:.2f} times; "
        f"{skipped.get('row_groups_pruned')} of {skipped.get('row_groups_total')} batches left out"
    )


if __name__ == "__main__":
    main()

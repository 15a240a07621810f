"""Measurements that need a fresh process: ``python benchmarks/worker.py``, run by bench.py.

``first``: what a query costs when nothing has been learned about its table. The process and its compiled code
are warm, from the same query on other, small tables; the page cache is warm as well; only the table is new.
So every table is queried by one query, once, and a second time to compare with: the process has compiled
as much then, and in steady state a query takes half of that.

``plain`` and ``off``: the stock query without the plugin, and with the plugin and ``enabled=false``.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import layouts
import queries
import runs


def main() -> None:
    """Measures and pickles the result for bench.py."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("first", "plain", "off"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--tables", required=True, help="layout:millions,...: in this order")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    query = queries.by_name(options.query)
    tables = [(layout, int(size)) for layout, size in (name.split(":") for name in options.tables.split(","))]
    spark = runs.session(f"benchmark: {options.mode}", plugin=options.mode != "plain")
    try:
        if options.mode == "first":
            result: Any = first_runs(spark, options.data, query, tables)
        else:
            result = stock_runs(spark, options.data, query, tables[0], options.repeats)
        options.out.write_bytes(pickle.dumps(result))
    finally:
        spark.stop()


def first_runs(
    spark: SparkSession, data: Path, query: queries.Query, tables: list[tuple[str, int]]
) -> dict[tuple[str, int], tuple[runs.Run, runs.Run]]:
    """The first run of ``query`` on each table, in a warm process, and the next one."""
    for layout in sorted({layout for layout, _ in tables}):
        small = runs.register(spark, f"warm_up_{layout}", layouts.warm_up_table(data, layout))
        for _ in range(runs.WARM_UP_RUNS):
            runs.run(spark, query.sql(small), filters=True)
    measured = {}
    for layout, size in tables:
        folder = layouts.table(data, layout, size)
        runs.warm_page_cache(folder)
        name = runs.register(spark, f"hits_{layout}_{size}", folder)
        first = runs.run(spark, query.sql(name), filters=True, report=True)
        measured[layout, size] = first, runs.run(spark, query.sql(name), filters=True)
    return measured


def stock_runs(
    spark: SparkSession, data: Path, query: queries.Query, table: tuple[str, int], repeats: int
) -> tuple[list[float], str]:
    """Seconds of ``query`` with filters off, after a warm-up, and the plan it ran."""
    folder = layouts.table(data, *table)
    runs.warm_page_cache(folder)
    sql = query.sql(runs.register(spark, "hits", folder))
    for _ in range(3):
        runs.run(spark, sql, filters=False)
    seconds = [runs.run(spark, sql, filters=False).seconds for _ in range(repeats)]
    return seconds, runs.plan(spark.sql(sql))


if __name__ == "__main__":
    main()

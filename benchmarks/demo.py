"""Dynamic filters on real Parquet: plans before and after, what was skipped, seconds, equal answers.

``python benchmarks/demo.py`` reads TPC-H tables made by tpchgen-cli and a web log in order of arrival. It
ends with an error if any answer differs with filters on, or if any filter skipped nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

import datafiles
import layouts
import runs
import spark_dynamic_filters as sdf
import tpch
from progress import step
from queries import SCALING, Query
from results import rounds

DEFAULT_DATA = datafiles.DATA / "demo"
TPCH_SCALE = 1  # 6M lineitems, 280 MB of Parquet
WEBLOG_ROWS = 2_000_000
REPEATS = 3


DEAREST = (
    "SELECT /*+ {hint}(orders) */ o_orderkey, o_totalprice, count(*) AS lines, "
    "sum(l_extendedprice) AS price, max(l_comment) AS comment "
    "FROM {{table}} JOIN orders ON l_orderkey = o_orderkey WHERE o_totalprice > 480000 "
    "GROUP BY o_orderkey, o_totalprice ORDER BY o_orderkey"
)


@dataclass(frozen=True)
class Job:
    """A query over one table, and why it is shown."""

    query: Query
    table: str
    title: str


JOBS = (
    Job(
        Query(
            "newest lines",
            "SELECT * FROM {table} ORDER BY l_orderkey DESC, l_linenumber LIMIT 100",
            ("l_orderkey", "l_linenumber"),
            100,
        ),
        "lineitem",
        "TopK over TPC-H lineitem by order key: files and row groups are in that order, most are never read",
    ),
    Job(
        Query(
            "last shipped", "SELECT * FROM {table} ORDER BY l_shipdate DESC LIMIT 100", ("l_shipdate",), 100
        ),
        "lineitem",
        "TopK over TPC-H lineitem by ship date: every row group holds every year, so what is skipped is rows",
    ),
    Job(
        Query(
            "largest orders",
            "SELECT * FROM {table} ORDER BY o_totalprice DESC LIMIT 10",
            ("o_totalprice",),
            10,
        ),
        "orders",
        "TopK over TPC-H orders by price: in no order at all",
    ),
    Job(SCALING[0], "hits", "ClickBench's query 23 over a web log in order of arrival"),
    Job(
        Query("lines of the dearest orders", DEAREST.format(hint="BROADCAST"), ("o_orderkey",), 0),
        "lineitem",
        "Join of TPC-H lineitem with few orders, broadcast: their keys are known before lineitem is read",
    ),
    Job(
        Query("the same, shuffled", DEAREST.format(hint="MERGE"), ("o_orderkey",), 0),
        "lineitem",
        "The same join, shuffled: the scan of lineitem is held back until the keys are known",
    ),
)


def show(spark: SparkSession, number: int, job: Job) -> list[str]:
    """Runs one job, prints what it shows, and returns what went wrong."""
    sql = job.query.sql(job.table)
    print(f"\n{'=' * 100}\n{number}. {job.title}\n\n    {sql}\n")
    with step(job.query.name) as progress:
        frame = spark.sql(sql)
        spark.conf.set(runs.ENABLED, "true")
        print(f"Plan before:\n{_indented(_short(runs.plan(frame)))}\n")
        progress.note("first run")
        known = runs.newest_query(spark)
        frame.collect()
        print(f"Plan after, with the filters in force:\n{_indented(_short(runs.plan(frame)))}\n")
        skipped = runs.skipped_since(spark, known)
        print(f"Skipped: {_sentence(skipped)}\n{_indented(_filters(spark))}\n")
        seconds: dict[bool, list[float]] = {False: [], True: []}
        answers = {}
        for i, variants in rounds((False, True), REPEATS + 1):
            progress.note(f"with and without filters, round {i}" if i else "warming up")
            for filters in variants:
                run = runs.run(spark, sql, filters)
                answers[filters] = run.rows
                if i:  # the first round warms up
                    seconds[filters].append(run.seconds)
    off, on = median(seconds[False]), median(seconds[True])
    difference = job.query.difference(answers[False], answers[True])
    print(
        f"Seconds, median of {REPEATS}: {off:.3f} without filters, {on:.3f} with: {off / on:.1f} times faster"
    )
    print(f"Answers: {difference or f'equal ({len(answers[True])} rows)'}")
    problems = [difference] if difference else []
    if not skipped.rows_pruned:
        problems.append(f"{job.query.name}: no filter skipped anything")
    return problems


def _sentence(skipped: runs.Skipped) -> str:
    def part(name: str, pruned: int, total: int) -> str:
        return f"{pruned:,} of {total:,} {name}"

    share = 100 * skipped.bytes_read / skipped.bytes_total if skipped.bytes_total else 100.0
    return (
        f"{part('files', skipped.files_pruned, skipped.files_total)}, "
        f"{part('row groups', skipped.row_groups_pruned, skipped.row_groups_total)}, "
        f"{part('rows', skipped.rows_pruned, skipped.rows_total)}; {share:.1f} % of the bytes read"
    )


def _filters(spark: SparkSession) -> str:
    """The newest query's filters, one a line."""
    rows = sdf.filters(spark).collect()
    newest = max((row.query_id for row in rows), default=None)
    lines = [
        f"filter {row.filter_id}: {row.producer} on {', '.join(row.columns or [])}, {row.state}, "
        f"generation {row.generation}: {row.expression}" + (f" ({row.reason})" if row.reason else "")
        for row in rows
        if row.query_id == newest
    ]
    return "\n".join(lines) or "no filter"


def _short(plan: str) -> str:
    """A plan with its long lists of columns cut, so that the filters in it can be seen."""
    brackets = r"(DynamicFilter#\d+ )?\[([^\[\]]*)\]"
    plan = re.sub(brackets, lambda found: found[0] if found[1] else f"[{_first_two(found[2])}]", plan)
    return re.sub(r"(ReadSchema: struct<[^,\n]*,[^,\n]*),.*", r"\1,...", plan)


def _first_two(items: str) -> str:
    parts = items.split(",")
    return items if len(parts) < 5 else f"{parts[0]},{parts[1]},... {len(parts) - 2} more"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def main() -> None:
    """Makes the data, runs the jobs, and says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, help="folder for the tables (default: .data/demo)"
    )
    parser.add_argument(
        "--scale", type=float, default=TPCH_SCALE, help="TPC-H scale factor (default: %(default)s)"
    )
    options = parser.parse_args()

    tables = tpch.tables(options.data, options.scale, ("lineitem", "orders"))
    weblog = layouts.small_table(
        options.data, "weblog", WEBLOG_ROWS, files=8, row_group_rows=layouts.BLOCK_ROWS
    )
    with step("starting Spark"):
        spark = runs.session("demo")
        for name, folder in {**tables, "hits": weblog}.items():
            runs.register(spark, name, folder)
    problems: list[str] = []
    try:
        for number, job in enumerate(JOBS, start=1):
            problems += show(spark, number, job)
    finally:
        spark.stop()
    print()
    if problems:
        print("FAILED:\n" + "\n".join(f"* {problem}" for problem in problems), file=sys.stderr)
        raise SystemExit(1)
    print("All answers are equal, and every filter skipped rows.")


if __name__ == "__main__":
    main()

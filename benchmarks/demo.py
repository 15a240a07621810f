"""Dynamic filters on real Parquet: plans before and after, what was skipped, seconds, equal answers.

``python benchmarks/demo.py`` reads TPC-H tables made by tpcgen-cli and a web log in order of arrival. It
ends with an error if any answer differs with filters on, or if any filter skipped nothing. The demo that
needs no tools but PySpark is ``python -m spark_dynamic_filters demo``.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import datafiles
import layouts
import runs
import spark_dynamic_filters as sdf
import tpch
from progress import step
from queries import SCALING, Query
from spark_dynamic_filters._demo import compare

DEFAULT_DATA = datafiles.DATA / "demo"
TPCH_SCALE = 1  # 6M lineitems, 280 MB of Parquet
WEBLOG_ROWS = 2_000_000
ROUNDS = 2

DEAREST = (
    "SELECT /*+ MERGE(orders) */ o_orderkey, o_totalprice, count(*) AS lines, "
    "sum(l_extendedprice) AS price, max(l_comment) AS comment "
    "FROM {table} JOIN orders ON l_orderkey = o_orderkey "
    "WHERE o_totalprice > 450000 AND o_orderpriority = '1-URGENT' "
    "GROUP BY o_orderkey, o_totalprice ORDER BY o_orderkey"
)
NEWEST = (
    "SELECT /*+ BROADCAST(newest) */ {table}.* FROM {table} JOIN "
    "(SELECT o_orderkey FROM orders ORDER BY o_orderkey DESC LIMIT 1000) newest ON l_orderkey = o_orderkey"
)


@dataclass(frozen=True)
class Job:
    """A query over one table, and why it is shown."""

    query: Query
    table: str
    title: str
    plans: bool = False


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
        plans=True,
    ),
    Job(
        Query(
            "last shipped", "SELECT * FROM {table} ORDER BY l_shipdate DESC LIMIT 100", ("l_shipdate",), 100
        ),
        "lineitem",
        "TopK by ship date: every row group holds every year, so what is skipped is rows",
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
        Query("lines of the newest orders", NEWEST, (), 0),
        "lineitem",
        "Broadcast join: the keys are known before lineitem is read, and lie in few of its row groups",
        plans=True,
    ),
    Job(
        Query("lines of the dearest urgent orders", DEAREST, ("o_orderkey",), 0),
        "lineitem",
        "Shuffled join: the scan of lineitem is held back until the keys are known",
    ),
)


def show(spark: SparkSession, number: int, job: Job) -> list[str]:
    """Runs one job, prints what it shows, and returns what went wrong."""
    sql = job.query.sql(job.table)
    print(f"\n{number}. {job.title}\n{_wrapped(sql)}")
    with step(job.query.name) as progress:
        frame = spark.sql(sql)
        before = runs.plan(frame)
        progress.note("first run")
        known = runs.newest_query(spark)
        frame.collect()
        if job.plans:
            print(f"   Plan before:\n{_indented(_short(before))}")
            print(f"   Plan after, with the filters in force:\n{_indented(_short(runs.plan(frame)))}")
        skipped = runs.skipped_since(spark, known)
        print(f"{_indented(_filters(spark))}\n   Skipped: {_sentence(skipped)}")
        progress.note("with and without filters, by turns")
        run = compare(spark, sql, ROUNDS)
    difference = job.query.difference(run.rows_off, run.rows_on)
    print(f"   {run}; {difference or f'equal answers ({len(run.rows_on):,} rows)'}")
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
        f"Filter {row.filter_id} ({row.producer}), generation {row.generation}: {row.expression}"
        for row in rows
        if row.query_id == newest and row.state == "ready"
    ]
    return "\n".join(lines) or "No filter"


def _short(plan: str) -> str:
    """The final plan with its long lists cut, so that the filters in it can be seen."""
    plan = plan.split("+- == Initial Plan ==")[0].replace("== Physical Plan ==\n", "")
    plan = re.sub(r"Batched: true, .*?ReadSchema", "ReadSchema", plan).rstrip()
    brackets = r"(DynamicFilter#\d+ )?\[([^\[\]]*)\]"
    plan = re.sub(brackets, lambda found: found[0] if found[1] else f"[{_first_two(found[2])}]", plan)
    return re.sub(r"(ReadSchema: struct<[^,\n]*,[^,\n]*),.*", r"\1,...", plan)


def _first_two(items: str) -> str:
    parts = items.split(",")
    return items if len(parts) < 5 else f"{parts[0]},{parts[1]},... {len(parts) - 2} more"


def _indented(text: str) -> str:
    return textwrap.indent(text, "   ")


def _wrapped(sql: str) -> str:
    return textwrap.fill(sql, 110, initial_indent="   ", subsequent_indent="     ", break_long_words=False)


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

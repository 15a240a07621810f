"""User filters: millions of ids as a bitmap, a list and a join: ``python benchmarks/bench_user.py``.

For each layout of the table and each set of ids, one query, ``count`` and sums over the rows of these ids:

* ``bitmap``: ``matches`` of a filter updated with a roaring bitmap;
* ``isin``: the same filter updated with a list;
* ``join``: LEFT SEMI JOIN with a table of the ids, filters off (stock Spark);
* ``join, filters on``: the same with join filters;
* ``in list``: Spark's own IN with literals, up to ``--most-literals`` of them, and so of fewer ids.

Answers are compared. Then an update of a running query: a scan that prunes by a filter that everything
passes; after a fifth of its time the filter gets a bitmap.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyroaring
from pyspark.sql import SparkSession

import datafiles
import runs
import spark_dynamic_filters as sdf
import user_tables
from progress import step
from results import rounds

DEFAULT_DATA = datafiles.DATA / "users"
COLUMNS = "count(*) n, sum(amount) a, sum(score) s, max(visits) v, count(DISTINCT city) c"
QUERY = f"SELECT {COLUMNS} FROM users WHERE {{}}"
SEMI = f"SELECT {COLUMNS} FROM users LEFT SEMI JOIN ids ON users.user_id = ids.user_id"


def main() -> None:
    """Measures what the command line asks for; writes JSON and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000, help="rows of the table; a tenth are ids")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each variant, interleaved")
    parser.add_argument("--most-literals", type=int, default=10_000, help="literals of Spark's own IN")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder for the tables")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the results")
    parser.add_argument(
        "--only-updates", action="store_true", help="measure only these, keep the rest of --out"
    )
    options = parser.parse_args()
    results: dict[str, Any] = {"environment": runs.environment(), "rows": options.rows, "queries": []}
    if options.only_updates and options.out and options.out.exists():
        results["queries"] = json.loads(options.out.read_text(encoding="utf-8"))["queries"]
    for layout in user_tables.LAYOUTS:
        user_tables.users(options.data, options.rows, layout)
    spark = runs.session("benchmark of users' filters")
    try:
        for layout in user_tables.LAYOUTS:
            folder = user_tables.users(options.data, options.rows, layout)
            runs.warm_page_cache(folder)
            runs.register(spark, "users", folder)
            for which in () if options.only_updates else user_tables.SETS:
                runs.register(spark, "ids", user_tables.id_table(options.data, options.rows, which))
                results["queries"].append(_compare(spark, options, layout, which))
                _print(results["queries"][-1])
            results.setdefault("updates", []).append({"layout": layout, **_update(spark, options.rows)})
            print(json.dumps(results["updates"][-1]))
    finally:
        spark.stop()
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _compare(spark: SparkSession, options: argparse.Namespace, layout: str, which: str) -> dict[str, Any]:
    ids = user_tables.ids(options.rows, which)
    few = ids[:: max(1, len(ids) // options.most_literals)]
    literals = ", ".join(map(str, few))
    updates: dict[str, float] = {}
    with (
        sdf.create_filter(spark, "by_bitmap", "bigint") as by_bitmap,
        sdf.create_filter(spark, "by_list", "bigint") as by_list,
    ):
        updates["bitmap"] = _seconds(lambda: by_bitmap.update(sdf.bitmap(pyroaring.BitMap64(ids))))
        updates["isin"] = _seconds(lambda: by_list.update(sdf.isin(ids)))
        variants = {
            "bitmap": (QUERY.format("dynamic_filter('by_bitmap', user_id)"), True),
            "isin": (QUERY.format("dynamic_filter('by_list', user_id)"), True),
            "join": (SEMI, False),
            "join, filters on": (SEMI, True),
            f"in list of {len(few)}": (QUERY.format(f"user_id IN ({literals})"), False),
        }
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        skipped: dict[str, Any] = {}
        answers: dict[str, Any] = {}
        with step(f"{layout}, {which}") as progress:
            for round_, turns in rounds(list(variants), options.rounds + 1):  # the first one warms up
                for name in turns:
                    text, filters = variants[name]
                    progress.note(f"round {round_}, {name}")
                    run = runs.run(spark, text, filters=filters, report=filters and round_ == options.rounds)
                    if round_:
                        seconds[name].append(run.seconds)
                    if run.skipped is not None:
                        skipped[name] = run.skipped.as_dict()
                    answers[name] = [round(v, 3) if isinstance(v, float) else v for v in run.rows[0]]
        snapshots = {"bitmap": by_bitmap.snapshot(), "isin": by_list.snapshot()}
    same = [answers[name] for name in ("bitmap", "isin", "join", "join, filters on")]
    if any(answer[:2] != same[0][:2] or answer[3:] != same[0][3:] for answer in same):
        raise SystemExit(f"the answers differ: {answers}")
    return {
        "layout": layout,
        "set": which,
        "ids": len(ids),
        "update seconds": updates,
        "filter bytes": {name: s.size_bytes for name, s in snapshots.items()},
        "median seconds": {name: statistics.median(s) for name, s in seconds.items()},
        "seconds": seconds,
        "skipped": skipped,
    }


def _update(spark: SparkSession, rows: int) -> dict[str, Any]:
    """A query that prunes by a filter which is updated while the query runs."""
    spark.conf.set(runs.ENABLED, "true")
    # Slow enough to be long, whatever the machine: a hash of each row's text, many times.
    work = "sum(length(sha2(repeat(city, 20), 512)))"
    text = f"SELECT count(*) n, {work} w FROM users WHERE dynamic_filter_prune('live', user_id)"
    found: dict[str, Any] = {}
    for name in ("never", "after a fifth"):
        with sdf.create_filter(spark, "live", "bigint") as live:
            timer = None
            if name != "never":
                wanted = pyroaring.BitMap64(range(0, rows, max(1, rows // 1_000)))
                timer = threading.Timer(found["never"]["seconds"] / 5, live.update, [sdf.bitmap(wanted)])
                timer.start()
            run = runs.run(spark, text, filters=True, report=True)
            if timer is not None:
                timer.join()
            assert run.skipped is not None
            found[name] = {
                "seconds": run.seconds,
                "rows": run.rows[0].n,
                "rows pruned": run.skipped.rows_pruned,
                "row groups pruned": run.skipped.row_groups_pruned,
            }
    return found


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _print(result: dict[str, Any]) -> None:
    print(f"\n{result['layout']}, {result['ids']:,} {result['set']} ids")
    for name, seconds in result["median seconds"].items():
        update = result["update seconds"].get(name)
        size = result["filter bytes"].get(name)
        extra = f"   update {update:.2f} s, {size:,} bytes" if update is not None else ""
        print(f"  {name:24} {seconds:7.2f} s{extra}")


if __name__ == "__main__":
    main()

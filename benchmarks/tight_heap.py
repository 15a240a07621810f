"""A join of large broadcasts in a heap that is just enough for Spark alone: `make test-tight-heap`.

The shape is that of TPC-DS's queries 10, 35 and 69: a dimension of two million rows with surrogate keys is
broadcast (its hash table needs a page of 128 or 256 MiB in one piece, and beside it half of that while it
grows), and its keys make a filter for the customers. The query runs by turns with filters off and on, each
time from a heap without anything left of earlier runs. Ends with 1 if a run fails, answers otherwise than the
first, or if the filters were not there.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import runs
import spark_dynamic_filters as sdf

# As TPC-DS's have at scale factor 1.
DEMOGRAPHICS, ADDRESSES, CUSTOMERS, DAYS, SALES = 1_920_800, 50_000, 100_000, 73_049, 1_500_000
ROW_GROUP_ROWS = 250_000
STATES = 50

QUERY = """
SELECT /*+ BROADCAST(d), BROADCAST(a) */
  d.gender, d.status, d.education, d.rating, count(*) AS n, min(d.estimate) AS least
FROM customers c
JOIN addresses a ON c.address_id = a.address_id
JOIN demographics d ON c.demo_id = d.demo_id
WHERE a.state < 10
  AND EXISTS (SELECT /*+ BROADCAST(x) */ 1 FROM sales s JOIN days x ON s.day_id = x.day_id
              WHERE s.customer_id = c.customer_id AND x.year = 40 AND x.quarter < 3)
GROUP BY d.gender, d.status, d.education, d.rating
"""
# A filter of these columns each run must have made, or nothing is tested.
FILTERED = {"demo_id", "address_id", "day_id"}


def main() -> None:
    """Runs all, prints a line for each run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heap", default="1300m", help="of the one process (spark.driver.memory)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--variants", default="off,on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20, help="time limit for all of it")
    options = parser.parse_args()
    watchdog = threading.Timer(options.minutes * 60, _too_long)
    watchdog.daemon = True
    watchdog.start()
    with tempfile.TemporaryDirectory() as folder:
        tables(Path(folder), options.seed)
        spark = session(options.heap, Path(folder))
        wrong = run(spark, options.rounds, options.variants.split(","), random.Random(options.seed))
        spark.stop()
    sys.exit(1 if wrong else 0)


def session(heap: str, folder: Path) -> SparkSession:
    """Two threads in one process, G1, with a view of each table."""
    settings = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": "-XX:+UseG1GC",
        "spark.ui.enabled": "false",
    }
    spark = runs.session("tight heap", settings)
    spark.sparkContext.setLogLevel("OFF")
    for table in sorted(folder.iterdir()):
        runs.register(spark, table.stem, table)
    return spark


def run(spark: SparkSession, rounds: int, variants: list[str], order: random.Random) -> int:
    """How many runs went wrong."""
    expected: list[Any] | None = None
    wrong: Counter[str] = Counter()
    for i in range(rounds):
        for variant in order.sample(variants, len(variants)):
            live = settle(spark)
            spark.conf.set(runs.ENABLED, "true" if variant == "on" else "false")
            start = time.monotonic()
            outcome = "right"
            try:
                rows = sorted(map(tuple, spark.sql(QUERY).collect()))
                expected = expected or rows
                if not rows or rows != expected:
                    outcome = "WRONG ROWS"
                elif variant == "on" and (missing := FILTERED - filtered(spark)):
                    outcome = f"NO FILTER of {', '.join(sorted(missing))}"
            except Exception as e:  # of any kind: it is what the test looks for
                outcome = f"FAILED: {' '.join(str(e).split())[:200]}"
            wrong[variant] += outcome != "right"
            took = time.monotonic() - start
            print(f"{i} {variant:3} {took:5.1f} s, {live:4.0f} MiB before: {outcome}", flush=True)
    for variant in variants:
        print(f"{variant}: {wrong[variant]} of {rounds} went wrong")
    return sum(wrong.values())


def filtered(spark: SparkSession) -> set[str]:
    """Columns of the filters that the newest query with filters made."""
    found = sdf.filters(spark).filter("state = 'ready'").collect()
    newest = max((r.query_id for r in found), default=None)
    return {c for r in found if r.query_id == newest for c in r["columns"]}


def settle(spark: SparkSession) -> float:
    """Waits until nothing is left of earlier queries: Spark frees broadcasts once their plans are gone.

    Returns:
        MiB that are in use.
    """
    jvm = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    before, deadline = float("inf"), time.monotonic() + 30
    while True:
        gc.collect()
        jvm.System.gc()
        time.sleep(0.5)
        live = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        if (abs(before - live) < 4 and live < 200) or time.monotonic() > deadline:
            return live
        before = live


def tables(folder: Path, seed: int) -> None:
    """All five, a file each."""
    r = np.random.default_rng(seed)
    # Two files, and so two tasks that collect keys, as Spark splits TPC-DS's.
    for first in (0, DEMOGRAPHICS // 2):
        ids = np.arange(first, first + DEMOGRAPHICS // 2)
        _write(
            folder / "demographics" / f"{first}.parquet",
            demo_id=ids + 1,
            gender=np.array(["F", "M"])[ids % 2],
            status=np.array(["D", "M", "S", "U", "W"])[ids // 2 % 5],
            education=np.array(["Primary", "Secondary", "College", "2 yr Degree", "4 yr Degree"])[
                ids // 10 % 5
            ],
            rating=np.array(["Low Risk", "Good", "High Risk", "Unknown"])[ids // 50 % 4],
            estimate=(ids // 200 % 20 + 1) * 500,
        )
    _write(
        folder / "addresses.parquet",
        address_id=np.arange(ADDRESSES) + 1,
        state=r.integers(0, STATES, ADDRESSES),
    )
    _write(
        folder / "customers.parquet",
        customer_id=np.arange(CUSTOMERS) + 1,
        address_id=r.integers(1, ADDRESSES + 1, CUSTOMERS),
        demo_id=r.integers(1, DEMOGRAPHICS + 1, CUSTOMERS),
    )
    days = np.arange(DAYS)
    _write(folder / "days.parquet", day_id=days + 2_415_022, year=days // 365, quarter=days % 365 // 92 + 1)
    _write(
        folder / "sales.parquet",
        day_id=np.sort(r.integers(30 * 365, 50 * 365, SALES)) + 2_415_022,
        customer_id=r.integers(1, CUSTOMERS + 1, SALES),
        amount=r.integers(1, 1_000_000, SALES),
    )


def _write(file: Path, **columns: np.ndarray) -> None:
    file.parent.mkdir(exist_ok=True)
    ids = [name for name in columns if name.endswith("_id")]
    pq.write_table(
        pa.table(columns),
        file,
        compression="snappy",
        row_group_size=ROW_GROUP_ROWS,
        # Small files, of which Spark and the filters' planner expect few rows, as they do of TPC-DS's.
        use_dictionary=[name for name in columns if name not in ids],
        column_encoding=dict.fromkeys(ids, "DELTA_BINARY_PACKED"),
    )


def _too_long() -> None:
    print("Not done within the time limit.", flush=True)
    os._exit(1)  # the main thread waits in a query


if __name__ == "__main__":
    main()

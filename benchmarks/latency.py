"""How long it takes until a bound that one executor finds is in force in another: `make bench-latency`.

A local-cluster of two executors with one core each, so one core of two a process while the driver idles.
Tables whose rows get better and better, so that every few milliseconds somebody finds a better bound. Each
executor notes the time at which a task contributes its best keys, and the time at which it takes over a
bound of the cluster's (`trace` of the fault injection, which tells the driver); processes of one machine
share the clock. LIMIT 1: the bound is one row, so a bound that arrives names the one contribution that made
it.

The time includes both rate limits: an executor sends a filter at most every 20 ms, and so does the driver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import runs

RATE_LIMIT_MS = 40.0  # 20 on the way to the driver, 20 on the way back
TARGET_MS = 100.0
FILES, ROW_GROUPS, ROWS = 8, 150, 2_000


def main() -> None:
    """Measures, prints and writes JSON; exits with 1 if the target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("docs/bench/exchange.json"))
    options = parser.parse_args()
    where = runs.environment()
    spark = session()
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(spark, Path(folder), options.rounds)
    finally:
        spark.stop()
    result["environment"] = where
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    latency = result["ms"]
    print(f"{result['bounds']} bounds from one executor to the other, in {result['queries']} queries")
    print("ms: " + ", ".join(f"{name} {latency[name]:.1f}" for name in latency))
    print(
        f"beyond the rate limits of {RATE_LIMIT_MS:.0f} ms: median "
        f"{result['median beyond rate limit ms']:.1f} ms (target: under {TARGET_MS:.0f})"
    )
    if not result["target met"]:
        sys.exit(1)


def session() -> SparkSession:
    """Two executors, and faults enabled for their trace."""
    settings = {
        **runs.SMALL_EXECUTORS,
        "spark.sql.files.maxPartitionBytes": "256m",
        "spark.sql.files.openCostInBytes": "256m",
        "spark.dynamicFilters.testing.faults.enabled": "true",
        # Reading in two passes would skip what is to be found.
        "spark.dynamicFilters.lateMaterialization.enabled": "false",
    }
    return runs.session("bench: exchange", settings, runs.TWO_EXECUTORS)


def write(folder: Path, seed: int) -> None:
    """Files whose keys fall from row group to row group, alike in all; no statistics say so."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    for i in range(FILES):
        group = np.repeat(np.arange(ROW_GROUPS), ROWS)
        k = (ROW_GROUPS - group) * 1_000_000 + random.integers(0, 1_000_000, len(group))
        table = pa.table({"k": k, "p": random.integers(0, 1 << 62, len(k)), "s": [f"{x:x}" * 3 for x in k]})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=ROWS, write_statistics=False)


class Event(NamedTuple):
    """What an executor noted: a `contributed` or an `adopted` key."""

    executor_id: str
    query_id: int
    event: str
    partition: int
    micros: int
    key: str


def events(spark: SparkSession) -> list[Event]:
    """What the driver has been told, as its JVM holds it."""
    told = spark._jvm.org.dynamicfilters.testing.FaultHooksProvider.traced()  # type: ignore[union-attr]
    texts = (told.apply(i).text().split("|", 5) for i in range(told.size()))
    return [Event(e, int(query), what, int(part), int(at), key) for e, query, what, part, at, key in texts]


def measure(spark: SparkSession, folder: Path, rounds: int) -> dict[str, Any]:
    """Runs the queries and matches bounds with contributions."""
    spark.conf.set("spark.dynamicFilters.testing.faults.spec", "trace=true")
    before = time.time()
    for i in range(rounds + 2):  # two to warm up
        if i == 2:
            before = time.time()
        write(folder / str(i), seed=i)
        spark.read.parquet(str(folder / str(i))).orderBy("k").limit(1).collect()
    rows = [event for event in events(spark) if event.micros > before * 1e6]
    contributed: dict[tuple[int, int, str], tuple[int, str]] = {}
    for r in rows:
        key = (r.query_id, r.partition, r.key)
        if r.event == "contributed" and (key not in contributed or r.micros < contributed[key][0]):
            contributed[key] = (r.micros, r.executor_id)
    latencies = []
    for r in rows:
        made = contributed.get((r.query_id, r.partition, r.key))
        if r.event == "adopted" and made is not None and made[1] != r.executor_id:
            latencies.append((r.micros - made[0]) / 1000)
    assert latencies, f"no bound went from one executor to the other; {len(rows)} events"
    latencies.sort()
    median = statistics.median(latencies)
    return {
        "queries": len({r.query_id for r in rows}),
        "bounds": len(latencies),
        "ms": {
            "least": latencies[0],
            "median": median,
            "95 %": latencies[int(len(latencies) * 0.95)],
            "most": latencies[-1],
        },
        "rate limits ms": RATE_LIMIT_MS,
        "median beyond rate limit ms": max(0.0, median - RATE_LIMIT_MS),
        "target met": max(0.0, median - RATE_LIMIT_MS) < TARGET_MS,
    }


if __name__ == "__main__":
    main()

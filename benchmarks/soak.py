"""Many queries from many threads in one session: `make soak`.

TopKs and joins of several shapes, some of which are cancelled and some of which fail, against a driver and
two executors (local-cluster). Every answer is compared with the one that Spark gives without dynamic
filters. Now and then everything stops and the live heap of each process is measured (`jcmd
GC.class_histogram`, which collects garbage first). Ends with 1 if an answer is wrong, a query takes too
long, something is left at the end, or a heap grows.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import InheritableThread
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import runs
import spark_dynamic_filters as sdf

THREADS = 8
STEP = 200
MEASUREMENTS = 4
# Live heap may move by this much between the first and the last measurement: caches of Spark's own are not
# all bounded by what is set below, and classes are still being loaded.
ALLOWED_MIB = 12.0
QUERY_SECONDS = 120.0
_KILLS = "kill a random executor again and again, after this time on average; heaps are not measured"
#: As many attempts as it takes.
_TRY_AGAIN = {
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
}
_BROKEN = "CAST(concat('x', f.id) AS INT) > 0"


@dataclass
class Query:
    """A query of the mix.

    Attributes:
        kind: of query, for the counts.
        text: SQL; without ties, so that it has one answer.
        outcome: rows | error | cancelled (or rows, where it was faster).
        expected: its sorted rows without filters.
    """

    kind: str
    text: str
    outcome: str = "rows"
    expected: list[str] = field(default_factory=list)


def main() -> None:
    """Runs, prints a table, writes JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=40, help="time limit for all of it")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/soak.json"))
    parser.add_argument("--kills", type=float, metavar="SECONDS", help=_KILLS)
    options = parser.parse_args()
    watchdog = threading.Timer(options.minutes * 60, _too_long, ["the time limit"])
    watchdog.daemon = True
    watchdog.start()
    where = runs.environment()
    spark = session(_TRY_AGAIN if options.kills else {})
    with tempfile.TemporaryDirectory() as folder:
        tables(spark, Path(folder))
        soak = Soak(spark, queries(), options.seed)
        result = soak.run(options.queries, options.kills)
    result["environment"] = where
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    report(result)
    spark.stop()
    sys.exit(0 if result["ok"] else 1)


def session(more: Mapping[str, str]) -> SparkSession:
    """Two executors of one core, and these settings.

    Spark's own records of past queries are short: else no heap is flat.
    """
    settings = {
        **runs.SMALL_EXECUTORS,
        "spark.driver.memory": "1g",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "50",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "256k",
        "spark.sql.files.openCostInBytes": "64k",
        "spark.dynamicFilters.report.retainedQueries": "50",
        **more,
    }
    spark = runs.session("soak", settings, runs.TWO_EXECUTORS)
    spark.sparkContext.setLogLevel("OFF")
    # PySpark logs the error of each query that fails.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    return spark


def tables(spark: SparkSession, folder: Path) -> None:
    """`fact` of 240,000 rows in 12 files, and `dim` of 500."""
    r = np.random.default_rng(2)
    rows = 20_000
    (folder / "fact").mkdir()
    for i in range(12):
        ids = np.arange(i * rows, (i + 1) * rows)
        table = pa.table(
            {
                "id": ids,
                "k": ids // 24,
                "v": r.integers(0, 1 << 40, rows),
                "d": r.random(rows),
                "s": [f"{x:012x}" for x in r.integers(0, 1 << 48, rows)],
                "g": r.integers(0, 10, rows),
            }
        )
        pq.write_table(table, folder / "fact" / f"{i:02}.parquet", row_group_size=1_000)
    (folder / "dim").mkdir()
    keys = np.concatenate([np.arange(1_000, 1_400), r.integers(0, 10_000, 100)])
    pq.write_table(pa.table({"j": keys, "w": np.arange(len(keys))}), folder / "dim" / "0.parquet")
    for name in ("fact", "dim"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


def queries() -> list[Query]:
    """The mix; what is more frequent stands here more often."""
    mix = []
    for column in ("v", "d", "s", "g"):
        for direction in ("ASC", "DESC"):
            for limit in (5, 500):
                text = f"SELECT * FROM fact f WHERE g < 8 ORDER BY {column} {direction}, id LIMIT {limit}"
                mix.append(Query("topk", text))
    for hint in ("MERGE", "BROADCAST", "SHUFFLE_HASH"):
        join = f"SELECT /*+ {hint}(dim) */ f.id, f.v, w FROM fact f JOIN dim ON f.k = j"
        mix += [Query("join", f"{join} WHERE w % 5 = {i}") for i in range(3)]
        mix.append(Query("join and topk", f"{join} ORDER BY f.v, f.id, w LIMIT 20"))
        mix.append(Query("join, nothing", f"{join} WHERE w > 100000"))
    mix.append(Query("semi", "SELECT id FROM fact f WHERE k IN (SELECT j FROM dim WHERE w < 100)"))
    mix.append(
        Query("anti", "SELECT count(*) FROM dim WHERE NOT EXISTS (SELECT 1 FROM fact f WHERE f.k = j)")
    )
    mix += [
        Query("failing", f"SELECT * FROM fact f WHERE {_BROKEN} ORDER BY v LIMIT 5", "error"),
        Query(
            "failing", f"SELECT /*+ MERGE(dim) */ f.id FROM fact f JOIN dim ON k = j WHERE {_BROKEN}", "error"
        ),
        Query("cancelled", "SELECT * FROM fact f ORDER BY v, id LIMIT 20000", "cancelled"),
        Query("cancelled", "SELECT /*+ MERGE(dim) */ f.id, w FROM fact f JOIN dim ON k = j", "cancelled"),
    ]
    return mix


class Soak:
    """Runs the mix and keeps count."""

    def __init__(self, spark: SparkSession, mix: list[Query], seed: int) -> None:
        self.spark = spark
        self.context = spark.sparkContext
        self.mix = mix
        self.random = random.Random(seed)
        self.wrong: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.running: dict[int, tuple[float, str]] = {}
        self.lock = threading.Lock()

    def run(self, count: int, kills: float | None = None) -> dict[str, Any]:
        """So many queries; heaps are measured after each `STEP`, unless executors are killed."""
        with sdf.conf(self.spark).override(enabled=False):
            for query in self.mix:
                if query.outcome != "error":
                    query.expected = rows(self.spark, query.text)
        threading.Thread(target=self._watch, daemon=True).start()
        heaps: dict[str, dict[str, float]] = {}
        killed: list[int] = []
        ended = threading.Event()
        if kills:
            threading.Thread(target=self._kill, args=(kills, killed, ended), daemon=True).start()
        start = time.monotonic()
        done = 0
        while done < count:
            chosen = [(done + i, self.random.choice(self.mix)) for i in range(min(STEP, count - done))]
            self._all(chosen)
            done += len(chosen)
            heaps[str(done)] = {} if kills else self._measure()
            seen = f"{len(killed)} executors killed" if kills else f"MiB {heaps[str(done)]}"
            print(f"{done} queries, {time.monotonic() - start:.0f} s, {seen}", flush=True)
        seconds = time.monotonic() - start
        ended.set()
        left = self._left()
        first, last = heaps[min(heaps, key=int)], heaps[max(heaps, key=int)]
        growth = {p: round(last[p] - first[p], 1) for p in first}
        return {
            "queries": count,
            "threads": THREADS,
            "seconds without start": round(seconds),
            "outcomes": dict(self.outcomes),
            "executors killed": len(killed),
            "wrong": self.wrong,
            "left": left,
            "live heap MiB": heaps,
            "growth MiB": growth,
            "allowed growth MiB": ALLOWED_MIB,
            "ok": not self.wrong and not left and all(g <= ALLOWED_MIB for g in growth.values()),
        }

    def _all(self, chosen: list[tuple[int, Query]]) -> None:
        todo = iter(chosen)

        def work() -> None:
            while True:
                with self.lock:
                    item = next(todo, None)
                if item is None:
                    return
                self._one(*item)

        # Each with a JVM thread of its own: tags belong to threads.
        threads = [InheritableThread(target=work) for _ in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def _one(self, number: int, query: Query) -> None:
        tag = f"soak-{number}"
        cancel = None
        if query.outcome == "cancelled":
            delay = random.Random(number).uniform(0.0, 0.8)
            cancel = threading.Timer(delay, _quietly(lambda: self.context.cancelJobsWithTag(tag)))
            cancel.start()
        with self.lock:
            self.running[number] = (time.monotonic(), query.text)
        self.context.addJobTag(tag)
        try:
            got: list[str] | None = rows(self.spark, query.text)
            error = ""
        except Exception as e:
            got, error = None, str(e)
        finally:
            self.context.removeJobTag(tag)
            with self.lock:
                del self.running[number]
        if cancel is not None:
            cancel.cancel()
        self._judge(query, got, error)

    def _judge(self, query: Query, got: list[str] | None, error: str) -> None:
        if got is not None:
            right = query.outcome != "error" and got == query.expected
            outcome = f"{query.kind}: rows"
        elif query.outcome == "error":
            right = "CAST_INVALID_INPUT" in error
            outcome = f"{query.kind}: error, as it must"
        else:
            right = query.outcome == "cancelled" and "cancel" in error.lower()
            outcome = f"{query.kind}: cancelled"
        with self.lock:
            self.outcomes[outcome] += 1
            if not right:
                self.wrong.append(f"{query.text}: {error[:500] or f'{len(got or [])} rows'}")

    def _kill(self, mean: float, killed: list[int], ended: threading.Event) -> None:
        while not ended.wait(self.random.expovariate(1 / mean)):
            executors = [pid for name, pid in self._processes().items() if name != "driver"]
            if executors:
                killed.append(self.random.choice(executors))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            with self.lock:
                late = [q for at, q in self.running.values() if time.monotonic() - at > QUERY_SECONDS]
            if late:
                _too_long(f"{QUERY_SECONDS:.0f} s: {late[0]}")

    def _left(self) -> list[str]:
        """What `dynamic_filter_live` shows after the last query, threads apart; empty after a moment."""
        until = time.monotonic() + 30
        while True:
            held = self.spark.sql("SELECT * FROM dynamic_filter_live()").collect()
            # Broadcasts go when the driver collects garbage.
            left = [f"{r.executor_id}: {r.value} {r.name}" for r in held if r.value and r.name != "threads"]
            if not left or time.monotonic() > until:
                return left
            self.spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
            time.sleep(0.5)

    def _measure(self) -> dict[str, float]:
        # Queries that have just ended are dropped by listeners.
        self._left()
        # Spark's broadcasts of a query go when Python, the driver's heap and then Spark's cleaner dropped
        # its plan: the least of several measurements is what is really held.
        seen = []
        for _ in range(MEASUREMENTS):
            gc.collect()
            seen.append({name: heap(pid) for name, pid in self._processes().items()})
            time.sleep(2)
        return {name: min(s[name] for s in seen) for name in seen[0]}

    def _processes(self) -> dict[str, int]:
        jvm = self.spark._jvm
        assert jvm is not None
        found = {"driver": int(jvm.java.lang.ProcessHandle.current().pid())}
        app = self.spark.sparkContext.applicationId
        for line in subprocess.run(
            ["jcmd", "-l"], capture_output=True, text=True, check=True
        ).stdout.splitlines():
            words = line.split()
            if "CoarseGrainedExecutorBackend" in line and app in words:
                found[f"executor {words[words.index('--executor-id') + 1]}"] = int(words[0])
        return found


def rows(spark: SparkSession, text: str) -> list[str]:
    """Sorted, as text."""
    return sorted(map(str, spark.sql(text).collect()))


def heap(pid: int) -> float:
    """MiB of live objects, after two collections: weak references and cleaners take more than one."""
    subprocess.run(["jcmd", str(pid), "GC.run"], capture_output=True, check=True)
    time.sleep(1)
    done = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    )
    total = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("Total"))
    return round(int(total.split()[2]) / 2**20, 1)


def report(result: dict[str, Any]) -> None:
    """Prints what `main` writes."""
    print("outcomes:", ", ".join(f"{n} {what}" for what, n in sorted(result["outcomes"].items())))
    print("growth of the live heap in MiB:", result["growth MiB"], "allowed:", result["allowed growth MiB"])
    for name in ("wrong", "left"):
        for text in result[name][:10]:
            print(f"{name}: {text}")
    print("ok" if result["ok"] else "FAILED")


def _quietly(f: Callable[[], object]) -> Callable[[], None]:
    def g() -> None:
        # The query may have ended just before.
        try:
            f()
        except Exception as e:
            print("not cancelled:", e, file=sys.stderr)

    return g


def _too_long(what: str) -> None:
    print(f"FAILED: a query hangs, or the machine is too slow: {what}", flush=True)
    os._exit(2)


if __name__ == "__main__":
    main()

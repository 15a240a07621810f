"""Two versions of the jar side by side: ``python benchmarks/bench_versions.py OLD.jar NEW.jar``.

Each version has a process of its own, and queries go to them by turns, in alternating order. Seconds, and the
processor time of the whole JVM, as medians; the ratio is the median of the ratios pair by pair. Answers of
both must be equal.

    python benchmarks/bench_versions.py --rounds 7 --only star before.jar after.jar
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import IO

import join_queries
import layouts
import queries
import runs
from datafiles import DATA
from join_queries import MILLION
from report import line, table
from results import Pairs, rounds

LATE = {"spark.dynamicFilters.join.waitTimeout": "0s"}
NOT_ADAPTIVE = LATE | {"spark.sql.adaptive.enabled": "false"}
STRATEGIES = ("broadcast", "merge", "shuffle_hash")
GROUPS = "SELECT CounterID, count(*), max(EventTime) FROM hits GROUP BY CounterID ORDER BY CounterID LIMIT 20"
EXTREMES = "SELECT min(EventTime), max(EventTime) FROM hits"


@dataclass(frozen=True)
class Work:
    """One query, with the views and settings that it needs."""

    name: str
    sql: str
    views: dict[str, str]
    confs: dict[str, str]


@dataclass(frozen=True)
class Cost:
    """What one run took, in seconds, and a digest of its answer."""

    wall: float
    cpu: float
    answer: str


def all_work(rows: int) -> list[Work]:
    """Joins and TopKs of the other benchmarks, and joins whose filter comes late."""
    cases = [
        *join_queries.clustered(DATA / "joins", rows, STRATEGIES),
        *join_queries.star(DATA / "joins", rows, STRATEGIES),
        *join_queries.useless(DATA / "joins", rows, ["merge", "shuffle_hash"]),
    ]
    joined = [
        Work(f"{c.part}: {c.name}{how}", c.sql, {k: str(v) for k, v in c.views.items()}, {**c.confs, **more})
        for c in cases
        for how, more in (("", {}), (", never waits", LATE), (", never waits, not adaptive", NOT_ADAPTIVE))
        if not more or "merge" in c.name or c.part == "star"
    ]
    hits = {"hits": str(layouts.table(layouts.DEFAULT_DATA, "int64", 2))}
    return (
        joined
        + [
            Work(f"topk: {name}", queries.by_name(name).sql("hits"), hits, {})
            for name in ("q23", "latest1000")
        ]
        + [Work("aggregate: groups", GROUPS, hits, {}), Work("aggregate: min and max", EXTREMES, hits, {})]
    )


class Version:
    """A process that runs queries with one jar."""

    def __init__(self, jar: Path) -> None:
        """Starts it; it is ready when it answers."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(jar.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, work: Work) -> Cost:
        """Runs one query."""
        print(json.dumps(asdict(work)), file=self._pipe(self._process.stdin), flush=True)
        answer = self._pipe(self._process.stdout).readline()
        if not answer:
            raise RuntimeError("the process with the jar has ended")
        return Cost(**json.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        self._pipe(self._process.stdin).close()
        self._process.wait(60)

    @staticmethod
    def _pipe(stream: IO[str] | None) -> IO[str]:
        if stream is None:
            raise RuntimeError("the process has no pipe")
        return stream


def serve(jar: str) -> None:
    """Runs the queries that come on standard input with this jar."""
    import spark_dynamic_filters._configure as configure

    configure.jar_path = lambda: jar  # type: ignore[attr-defined]
    spark = runs.session("benchmark of versions")
    process = spark._jvm.java.lang.ProcessHandle.current()
    registered: dict[str, str] = {}
    for request in sys.stdin:
        work = Work(**json.loads(request))
        for name, folder in work.views.items():
            if registered.get(name) != folder:
                registered[name] = folder
                runs.register(spark, name, Path(folder))
        with runs.settings(spark, work.confs):
            cpu = process.info().totalCpuDuration().get().toNanos()
            measured = runs.timed(spark, work.sql)
            cpu = process.info().totalCpuDuration().get().toNanos() - cpu
        answer = str(sorted(map(str, measured.rows)))
        print(json.dumps(asdict(Cost(measured.seconds, cpu / 1e9, answer))), flush=True)


def compared(old: Version, new: Version, work: Work, count: int) -> str:
    """A row of the table: medians, and medians of the ratios of pairs."""
    wall, cpu = Pairs(work.name, "", ""), Pairs(work.name, "", "")
    for i, turns in rounds((old, new), count + 2):
        cost = {version: version.run(work) for version in turns}
        before, after = cost[old], cost[new]
        if not work.name.startswith("topk") and before.answer != after.answer:
            raise AssertionError(f"{work.name}: the answers differ")
        if i > 1:  # else a warm-up
            for pairs, base, other in ((wall, before.wall, after.wall), (cpu, before.cpu, after.cpu)):
                pairs.base.append(base)
                pairs.other.append(other)
    seconds = [value for p in (wall, cpu) for value in (median(p.base), median(p.other), p.ratio)]
    return line([work.name, *(f"{value:.2f}" for value in seconds)])


def main() -> None:
    """Compares two jars, or serves one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jars", type=Path, nargs="*", help="the version before, and the one after")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs for each query")
    parser.add_argument("--rows", type=int, default=10 * MILLION, help="rows of the joins' large tables")
    parser.add_argument("--only", default="", help="queries whose name has this text")
    parser.add_argument("--seconds", type=float, default=3600, help="no query is begun after that")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if len(options.jars) != 2:
        parser.error("two jars are compared")
    works = [w for w in all_work(options.rows) if options.only in w.name]
    started = time.monotonic()
    old, new = map(Version, options.jars)
    header = ["query", "wall before", "after", "ratio", "processor before", "after", "ratio"]
    print(table(header, []), flush=True)
    try:
        for work in works:
            if time.monotonic() - started < options.seconds:
                print(compared(old, new, work, options.rounds), flush=True)
    finally:
        old.close()
        new.close()


if __name__ == "__main__":
    main()

"""How long Spark plans with and without filters: ``python benchmarks/bench_planning.py``.

Times the making of ``executedPlan`` of queries with large plans, by turns with filters off and on. No query
runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import datafiles
import runs
import tpcds
from results import rounds

LIMIT = 1.2
SCANS, FILES, TABLES = 200, 20_000, 20
#: Their plans take the longest beside stock's of all of TPC-DS.
TPCDS = ("q36", "q41", "q68")
OFF, ON, AGAIN = "off", "on", "off again"


@dataclass
class Case:
    """A query and the milliseconds that its plans took, by variant."""

    name: str
    sql: str
    confs: Mapping[str, str] = field(default_factory=dict)
    millis: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, variant: str) -> float:
        """Median over that with filters off."""
        return median(self.millis[variant]) / median(self.millis[OFF])

    def row(self) -> str:
        """Of the table."""
        off, on = median(self.millis[OFF]), median(self.millis[ON])
        return (
            f"| {self.name} | {off:.0f} | {on:.0f} | {on - off:.0f} | {self.ratio(ON):.2f} "
            f"| {self.ratio(AGAIN):.2f} | {'yes' if self.ratio(ON) <= LIMIT else 'no'} |"
        )


def main() -> None:
    """Measures, prints the table, and writes it where the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tpcds", action="store_true", help="queries of TPC-DS at 1, too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    spark = runs.session("benchmark of planning", {**runs.LARGE, **runs.STEADY})
    try:
        cases = list(_cases(spark, datafiles.DATA / "planning"))
        if options.tpcds:
            for name, folder in tpcds.tables(datafiles.DATA, 1).items():
                spark.read.parquet(str(folder)).createOrReplaceTempView(name)
            texts = tpcds.queries(1)
            cases += [Case(f"TPC-DS {name}", texts[name]) for name in TPCDS]
        for case in cases:
            for round_, order in rounds((OFF, ON, AGAIN), options.rounds + 5):  # the first ones warm up
                for variant in order:
                    millis = _planned(spark, case, variant == ON)
                    if round_ >= 5:
                        case.millis.setdefault(variant, []).append(millis)
            print(case.row(), flush=True)
    finally:
        spark.stop()
    if options.out:
        _write(cases, options.out, options.rounds)


def _planned(spark: SparkSession, case: Case, filters: bool) -> float:
    with runs.settings(spark, {**case.confs, runs.ENABLED: str(filters).lower()}):
        frame = spark.sql(case.sql)
        start = time.perf_counter()
        frame._jdf.queryExecution().executedPlan()
        return (time.perf_counter() - start) * 1000


def _cases(spark: SparkSession, data: Path) -> Iterator[Case]:
    """Unions of many scans, a table of many files, a join of many tables."""
    if not (data / "done").exists():
        for i in range(SCANS):
            _file(data / f"part{i}" / "0.parquet", i)
        for i in range(FILES):
            _file(data / "files" / f"{i:05}.parquet", i)
        (data / "done").touch()
    for i in range(SCANS):
        spark.read.parquet(str(data / f"part{i}")).createOrReplaceTempView(f"part{i}")
    spark.read.parquet(str(data / "files")).createOrReplaceTempView("files")
    union = " UNION ALL ".join(f"SELECT k, id FROM part{i}" for i in range(SCANS))
    small = "(SELECT k FROM part0 WHERE id < 3)"
    yield Case(f"TopK over {SCANS} scans", f"SELECT * FROM ({union}) ORDER BY k LIMIT 10")
    yield Case(f"join with {SCANS} scans", f"SELECT u.* FROM ({union}) u JOIN {small} s ON u.k = s.k")
    yield Case(f"TopK over {FILES:,} files", "SELECT * FROM files ORDER BY k LIMIT 10")
    yield Case(f"join with {FILES:,} files", f"SELECT f.* FROM files f JOIN {small} s ON f.k = s.k")
    joins = " ".join(f"JOIN part{i} ON part{i}.k = part{i - 1}.k" for i in range(1, TABLES))
    chain = f"SELECT part0.id FROM part0 {joins} WHERE part0.id < 50"
    yield Case(f"broadcast join of {TABLES} tables", chain)
    yield Case(f"sort-merge join of {TABLES} tables", chain, {"spark.sql.autoBroadcastJoinThreshold": "-1"})


def _file(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = list(range(seed * 100, seed * 100 + 100))
    pq.write_table(pa.table({"k": [i % 997 for i in ids], "id": ids}), path)


def _write(cases: list[Case], out: Path, turns: int) -> None:
    environment = runs.environment()
    report = {"environment": environment, "rounds": turns, "millis": {c.name: c.millis for c in cases}}
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    lines = [
        "# Planning with and without filters",
        "",
        f"Commit {_commit()}, {date.today()}; medians of {turns} rounds, in ms. A/A is stock over itself.",
        f"{runs.environment_text(environment)}.",
        "",
        f"| query | stock | ours | more | ours / stock | A/A | at most {LIMIT} |",
        "|---|---|---|---|---|---|---|",
        *(case.row() for case in cases),
    ]
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()

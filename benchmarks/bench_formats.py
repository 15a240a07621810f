"""Other formats below an exchange, stock and with filters by turns: ``python benchmarks/bench_formats.py``.

A shuffled join of a large table with a small one, whose keys leave a thousandth of the rows, or all of them:
what a filter gains there and what a useless one costs. The rows are in no order, but for one table of ORC.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import processor
import runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 100_000
TABLES = {"orc": "orc", "orc, by key": "orc", "csv": "csv"}
COLUMNS = "k BIGINT, id BIGINT, v INT, s STRING"
SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "4"}
QUERY = "SELECT count(*), sum(x.v), max(x.s) FROM large x JOIN small y ON x.k = y.j"
#: On another column than the key: Spark cannot carry them over to the other side.
FILTERS = {"selective": "g = 0", "useless": "g >= 0"}


def write(spark: SparkSession, folder: Path, rows: int) -> None:
    """Writes all tables."""
    shuffled = spark.range(0, rows, 1, 8).selectExpr(
        f"pmod(hash(id), {KEYS}) AS k", "id", "CAST(id % 97 AS INT) AS v", "concat('abc', repeat(id, 4)) AS s"
    )
    for name, kind in TABLES.items():
        frame = shuffled.sort("k") if "by key" in name else shuffled
        frame.write.mode("overwrite").format(kind).save(str(folder / name))
    spark.range(KEYS).selectExpr("id AS j", "id * 7919 % 1000 AS g").write.mode("overwrite").parquet(
        str(folder / "keys")
    )


def main() -> None:
    """Measures and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=[*TABLES])
    options = parser.parse_args()
    spark = runs.session("benchmark of formats")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(spark, folder, options.rows)
        spark.read.parquet(str(folder / "keys")).createOrReplaceTempView("keys")
        print(f"{'table':12} {'filter':10} {'':8} {'stock':>7} {'ours':>7} {'change':>8}   rows dropped")
        with runs.settings(spark, SHUFFLED):
            for table in options.tables:
                frame = spark.read.format(TABLES[table]).schema(COLUMNS).load(str(folder / table))
                frame.createOrReplaceTempView("large")
                for what, condition in FILTERS.items():
                    spark.sql(f"SELECT j FROM keys WHERE {condition}").createOrReplaceTempView("small")
                    compare(spark, table, what, options.rounds)
    spark.stop()


def compare(spark: SparkSession, table: str, what: str, rounds: int) -> None:
    """One line for wall time and one for processor time."""
    wall: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    answers = set()
    for i in range(rounds + 2):
        for filters in (False, True) if i % 2 else (True, False):
            runs.collect_garbage(spark)
            used, start = processor.seconds_of_jvm(spark), time.perf_counter()
            answers.add(str(runs.run(spark, QUERY, filters).rows))
            if i >= 2:
                wall[filters].append(time.perf_counter() - start)
                cpu[filters].append(processor.seconds_of_jvm(spark) - used)
    assert len(answers) == 1, answers
    skipped = runs.run(spark, QUERY, filters=True, report=True).skipped
    for unit, times in (("wall s", wall), ("cpu s", cpu)):
        stock, ours = statistics.median(times[False]), statistics.median(times[True])
        dropped = f"{skipped.rows_pruned:,} of {skipped.rows_total:,}" if skipped else ""
        print(f"{table:12} {what:10} {unit:8} {stock:7.2f} {ours:7.2f} {ours / stock - 1:+8.1%}   {dropped}")


if __name__ == "__main__":
    main()

"""`python -m spark_dynamic_filters demo`: a TopK and a join with and without filters, on data of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._analyze import analyze
from ._conf import conf
from ._configure import configure
from ._errors import unsupported_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5_000_000
FILES = 8
ROWS_OF_A_DEVICE = 400
ROUNDS = 3

TOPK = "SELECT * FROM events ORDER BY time DESC LIMIT 10"
JOIN = "SELECT * FROM events JOIN devices USING (device_id) WHERE state = 'lost'"
QUERIES = (
    ("TopK: the newest ten of all events", TOPK),
    ("Join: the events of a few devices", JOIN),
)


@dataclass(frozen=True)
class Comparison:
    """One query, run by turns with filters off and on.

    Attributes:
        off, on: median seconds.
        rows_off, rows_on: the rows of the last run.
    """

    off: float
    on: float
    rows_off: Sequence[Any]
    rows_on: Sequence[Any]

    @property
    def equal(self) -> bool:
        """Whether both gave the same rows, in whatever order."""
        return sorted(map(repr, self.rows_off)) == sorted(map(repr, self.rows_on))

    def __str__(self) -> str:
        return (
            f"{self.off:.2f} s without filters, {self.on:.2f} s with filters: "
            f"{self.off / self.on:.1f} times faster"
        )


def compare(spark: SparkSession, query: str, rounds: int = ROUNDS) -> Comparison:
    """Runs `query` once to warm up and `rounds` times by turns without and with filters.

    Args:
        spark: a session with the plugin; its setting `enabled` is afterwards as it was.
        query: a SQL text.
        rounds: how many runs of each kind are measured.
    """
    seconds: dict[bool, list[float]] = {False: [], True: []}
    rows: dict[bool, Sequence[Any]] = {}
    settings = conf(spark)
    for i in range(rounds + 1):
        # In turns, so that neither always comes second.
        for filters in (False, True) if i % 2 else (True, False):
            with settings.override(enabled=filters):
                start = time.perf_counter()
                rows[filters] = spark.sql(query).collect()
                if i:
                    seconds[filters].append(time.perf_counter() - start)
    off, on = statistics.median(seconds[False]), statistics.median(seconds[True])
    return Comparison(off, on, rows[False], rows[True])


def main(rows: int = ROWS, data: str | None = None) -> int:
    """Makes the data, shows both queries, and removes the data again.

    Args:
        rows: of the table of events.
        data: folder in which the data is kept; None: a temporary one, which is removed.

    Returns:
        The exit code: 1 if an answer with filters is another than without, or Spark is missing.
    """
    if not (missing := _missing()):
        folder = Path(data or tempfile.mkdtemp(prefix="dynamic-filters-demo-"))
        try:
            return _show(rows, folder)
        finally:
            if data is None:
                shutil.rmtree(folder, ignore_errors=True)
    print(missing, file=sys.stderr)
    return 1


def _missing() -> str | None:
    """What is not there that a classic session needs."""
    try:
        from pyspark import __version__ as version
    except ImportError:
        return "the demo needs PySpark: pip install 'spark-dynamic-filters[spark]'"
    if refusal := unsupported_spark(version):
        return refusal
    from pyspark.util import is_remote_only

    if is_remote_only():
        return "the demo starts its own Spark; pyspark-client is only a client: pip install pyspark"
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return "the demo needs Java 17 or newer: install it, or let JAVA_HOME point to it"
    return None


def _show(rows: int, folder: Path) -> int:
    with progress("starting Spark"):
        spark = _session()
    try:
        with progress(f"making {rows:,} events in {FILES} Parquet files") as note:
            make_tables(spark, folder, rows, note)
        different = 0
        for title, query in QUERIES:
            print(f"\n{title}\n\n    {query}\n")
            with progress("running it with and without filters"):
                run = compare(spark, query)
            analysis = analyze(spark.sql(query))
            found = "the same in both" if run.equal else "which DIFFER: please report this"
            print(f"{analysis}\n\n{run}; {len(run.rows_on):,} rows, {found}.")
            different += not run.equal
            if not any(scan["rows_pruned"] for scan in analysis.scans):
                print("No filter skipped anything; the column `reason` above says why.")
        return 1 if different else 0
    finally:
        spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[*]")
        # Whatever SPARK_API_MODE or the distribution makes the default.
        .config("spark.api.mode", "classic")
        .appName("dynamic filters: demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Spark's default for timestamps, INT96, has no statistics in files.
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    )
    # PySpark tells of pandas 3, which nothing here uses.
    warnings.filterwarnings("ignore", message=".* pandas >= 3", category=FutureWarning)
    spark: SparkSession = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, folder: Path, rows: int, note: Callable[[str], None]) -> None:
    """Writes `events` (in order of time, each device's in one piece) and `devices`, and makes them views."""
    devices = max(1, rows // ROWS_OF_A_DEVICE)
    for i in range(FILES):
        note(f"file {i + 1} of {FILES}")
        events = spark.range(i * rows // FILES, (i + 1) * rows // FILES, 1, 1).selectExpr(
            "id AS event_id",
            "timestamp_millis(1700000000000 + id * 100) AS time",
            f"id DIV {ROWS_OF_A_DEVICE} AS device_id",
            "CAST(pmod(xxhash64(id), 400) / 10 AS DOUBLE) AS temperature",
            "CAST(pmod(xxhash64(id, 1), 1000) AS INT) AS status",
            "concat('message ', md5(CAST(id AS STRING))) AS message",
        )
        events.write.mode("overwrite").parquet(str(folder / "events" / f"part={i}"))
    lost = max(1, devices // 2500)
    spark.range(devices).selectExpr(
        "id AS device_id",
        f"IF(id >= {devices // 3} AND id < {devices // 3 + lost}, 'lost', 'in use') AS state",
        "concat('device ', id) AS name",
    ).write.mode("overwrite").parquet(str(folder / "devices"))
    files = [str(folder / "events" / f"part={i}") for i in range(FILES)]
    spark.read.parquet(*files).createOrReplaceTempView("events")
    spark.read.parquet(str(folder / "devices")).createOrReplaceTempView("devices")


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is under way: one that is written over on a terminal."""
    terminal = sys.stderr.isatty()
    start = time.perf_counter()

    def show(text: str, end: str) -> None:
        print(f"\r{text:<79}" if terminal else text, end=end, file=sys.stderr, flush=True)

    def note(text: str) -> None:
        if terminal:
            show(f"{label}: {text}", end="")

    show(f"{label} ...", end="" if terminal else "\n")
    yield note
    if terminal:
        show(f"{label}: {time.perf_counter() - start:.1f} s", end="\n")

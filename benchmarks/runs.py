"""The session and the machine that queries run on, and what filters spared them."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import spark_dynamic_filters as sdf
from datafiles import ROOT

ENABLED = "spark.dynamicFilters.enabled"
CORES = 2

#: Masters and settings of sessions: in one process, and with executors that are processes of their own.
LOCAL = f"local[{CORES}]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
LARGE = {"spark.driver.memory": "8g"}
#: For differences of some per cent, beside `LARGE`. Spark keeps the code that it generates of all queries (by
#: default 100 classes), and the JVM what it compiles of that: 240 MB, its default, were full after two
#: rounds of TPC-DS, and what it throws away it compiles again. The heap keeps its memory: to get it back from
#: the system after each collection took up to 30 ms of a query of 300, never the same.
STEADY = {
    "spark.sql.codegen.cache.maxEntries": "20000",
    "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=1g -Xms8g -XX:+AlwaysPreTouch",
}
SMALL_EXECUTORS = {"spark.executor.memory": "1g", "spark.ui.enabled": "false"}

#: A file system in memory, where there is one.
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Skipped:
    """What dynamic filters spared the scans of one query."""

    files_total: int = 0
    files_pruned: int = 0
    row_groups_total: int = 0
    row_groups_pruned: int = 0
    rows_total: int = 0
    rows_pruned: int = 0
    bytes_total: int = 0
    bytes_read: int = 0

    def as_dict(self) -> dict[str, int]:
        """For the JSON report."""
        return asdict(self)


def session(app: str, settings: Mapping[str, str] = LARGE, master: str = LOCAL) -> SparkSession:
    """A session as a user has it: two cores, 8 GB, everything else Spark's default; or with ``settings``."""
    quiet = {"spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master(master).appName(app).config(map={**quiet, **settings})
    spark: SparkSession = sdf.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def shuffles_in_memory() -> dict[str, str]:
    """A setting that keeps Spark's shuffle files in memory until the process ends; none where that cannot be.

    For small differences of queries with little data: each map task opens 200 files, which took 0.4 to 0.7 ms
    each on a disk, never the same, a third of the processor time of TPC-DS q65.
    """
    if not os.access(_MEMORY, os.W_OK):
        return {}
    folder = tempfile.mkdtemp(prefix="benchmark-", dir=_MEMORY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.local.dir": folder}


def environment() -> dict[str, Any]:
    """Commit, date, versions, cores and memory, and how busy the machine was beforehand."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "commit": commit or "unknown",
        "date": str(date.today()),
        "Spark": pyspark.__version__,
        "Python": platform.python_version(),
        "cores used": CORES,
        "cores": os.cpu_count(),
        "memory GiB": round(memory),
        "load average before": f"{os.getloadavg()[0]:.1f}",  # what else was running; should be near zero
    }


def register(spark: SparkSession, name: str, folder: Path) -> str:
    """Makes a folder of Parquet files a view; listing and schema are read here, outside every timing."""
    spark.read.parquet(str(folder)).createOrReplaceTempView(name)
    return name


def warm_page_cache(folder: Path) -> None:
    """Reads the files once, so that no variant pays for the disk."""
    for file in sorted(folder.glob("*.parquet")):
        with file.open("rb", buffering=0) as stream:
            while stream.read(1 << 24):
                pass


def collect_garbage(spark: SparkSession) -> None:
    """Frees what earlier queries left, also their shuffle files: Spark deletes what nothing refers to."""
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]


@contextlib.contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets ``values``; afterwards they have Spark's defaults."""
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            spark.conf.unset(key)


def forget(spark: SparkSession) -> None:
    """Drops what the plugin learned of files and tables' logs, as in an application that has seen none."""
    jvm: Any = spark._jvm
    jvm.org.dynamicfilters.scan.statistics.FileStatistics.instance().clear()
    jvm.org.dynamicfilters.tables.TableStatistics.instance().clear()


def plan(frame: DataFrame) -> str:
    """What ``frame.explain()`` prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    return text.getvalue().strip()


def newest_query(spark: SparkSession) -> int:
    """The id of the newest query with a filtered scan, or -1."""
    return max((row.query_id for row in sdf.scans(spark).select("query_id").collect()), default=-1)


def skipped_since(spark: SparkSession, query: int) -> Skipped:
    """Sums the scans of the queries after ``query``; without any filtered scan everything is zero."""
    scans = [row.asDict() for row in sdf.scans(spark).collect() if row.query_id > query]
    return Skipped(**{name: sum(scan[name] or 0 for scan in scans) for name in Skipped.__dataclass_fields__})

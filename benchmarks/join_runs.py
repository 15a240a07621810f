"""One run of one join in one variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

import runs
import stages
from join_queries import MILLION, TAP, Case
from runs import ORACLE, STOCK, Skipped
from stages import StageTime

BLOOM, OURS = "bloom", "ours"
VARIANTS = (STOCK, ORACLE, BLOOM, OURS)

#: Spark's own runtime filter, applied whatever the size of the probe side (Spark's default asks for 10 GB).
BLOOM_CONFS = {
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
}
BLOOM_BUILD = "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold"  # a larger one gets none
FILTER_COLUMNS = ("filter_id", "producer", "columns", "form", "state", "reason", "size_bytes", "wait_ms")


@dataclass(frozen=True)
class JoinRun:
    """What a run took and gave; ``filters`` are the rows of ``dynamic_filters()``, ``build`` is for taps."""

    seconds: float
    rows: Sequence[Any]
    skipped: Skipped | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    build: StageTime | None = None

    def same(self, expected: Sequence[Any]) -> bool:
        """Whether the answer has the rows of ``expected``; no query here sums floating-point numbers."""
        return Counter(map(tuple, self.rows)) == Counter(map(tuple, expected))


def run(spark: SparkSession, case: Case, variant: str) -> JoinRun:
    """Runs ``case`` from the text of the query to its collected rows."""
    ours = variant == OURS
    collect_garbage(spark)
    with confs(spark, settings(case, variant)):
        before = _newest_filter(spark) if ours else -1
        stage = stages.newest(spark) if case.part == TAP else -1
        measured = runs.run(spark, text(case, variant), filters=ours, report=ours)
    filters = _filters(spark, before) if ours else ()
    build = stages.shuffle_writer(spark, stage, int(case.size * MILLION)) if case.part == TAP else None
    return JoinRun(measured.seconds, measured.rows, measured.skipped, filters, build)


def text(case: Case, variant: str) -> str:
    """The query as ``variant`` has it."""
    if variant != ORACLE:
        return case.sql
    if case.oracle is None:
        raise ValueError(f"{case.name} has no oracle")
    return case.oracle


def settings(case: Case, variant: str) -> dict[str, str]:
    """The settings that ``variant`` runs ``case`` with, beside the master switch."""
    return {**case.confs, **(BLOOM_CONFS if variant == BLOOM else {})}


def bloom_filters(spark: SparkSession, case: Case) -> int:
    """How many bloom filters Spark itself puts into the plan when they are forced on."""
    with confs(spark, {**settings(case, BLOOM), runs.ENABLED: "false"}):
        return runs.plan(spark.sql(case.sql)).count("might_contain(")


def collect_garbage(spark: SparkSession) -> None:
    """Frees what earlier queries left, also their shuffle files: Spark deletes what nothing refers to."""
    spark.sparkContext._jvm.java.lang.System.gc()


@contextmanager
def confs(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets ``values`` and restores what was before."""
    before = {key: spark.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def _newest_filter(spark: SparkSession) -> int:
    import spark_dynamic_filters as sdf

    return max((row.query_id for row in sdf.filters(spark).select("query_id").collect()), default=-1)


def _filters(spark: SparkSession, after: int) -> list[dict[str, Any]]:
    import spark_dynamic_filters as sdf

    rows = [row for row in sdf.filters(spark).collect() if row.query_id > after]
    return [{name: row[name] for name in FILTER_COLUMNS} for row in rows]

"""Joins: their tables, a check that runs a query twice only, and what is asserted of their filters.

The probe table's key is `k`, a build table's is `j`: a filter tells by its column which scan it is for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from spark_dynamic_filters import conf
from spark_dynamic_filters._analyze import Analysis, tagged
from spark_dynamic_filters._report import QueryReport, by_tag
from spark_dynamic_filters.testing._differential import FIRING_RUNS, assert_fires, may_fire_next_time
from spark_dynamic_filters.testing._rows import multiset_difference

from . import tables
from .checks import contains_all

KEYS = 2_000
_KEYS_PER_ROW_GROUP = tables.ROW_GROUP_ROWS * KEYS // tables.ROWS

# Sizes on disk decide which side of a join is the build: the probe has to be clearly the larger one.
_PAYLOAD = 60

# A wait that nobody ends takes longer than any query of the tests may.
FOREVER = {"spark.dynamicFilters.join.waitTimeout": "60s"}

ADAPTIVE = {"on": {"spark.sql.adaptive.enabled": "true"}, "off": {"spark.sql.adaptive.enabled": "false"}}
BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "10m"}
SHUFFLED_AS_USERS_DO = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
# On a machine that does other work, too, a build side may take longer than a scan waits by default.
SHUFFLED = SHUFFLED_AS_USERS_DO | FOREVER
STRATEGIES = {"broadcast": BROADCAST, "shuffled": SHUFFLED}
# One task reads all files: the bound that the first one gives is there for the others.
ONE_SCAN_TASK = {"spark.sql.files.maxPartitionBytes": "128m", "spark.sql.files.minPartitionNum": "1"}
# Spark's row-based reader of Parquet: filters skip whole files only, by bounds that an earlier query read.
ROW_BASED = {"spark.sql.parquet.enableVectorizedReader": "false"}
FEW_TASKS = {"spark.sql.shuffle.partitions": "2", "spark.sql.files.maxPartitionBytes": "64m"}


def probe(key: str = "k", rows: int = tables.ROWS) -> pa.Table:
    """A table clustered on its key: each row group has 100 keys of its own, each key two rows.

    Every second row group has nulls among its keys.

    Columns: the key, `id` (unique, ascending), `g` (`id` modulo 10), `v` (`id` modulo 7), `s` (the key as
        text), `payload`.
    """
    ids = range(rows)
    keys = [i * KEYS // tables.ROWS for i in ids]
    nulls = [(i // tables.ROW_GROUP_ROWS) % 2 == 1 and i % 20 == 7 for i in ids]
    return pa.table(
        {
            key: pa.array([None if n else k for k, n in zip(keys, nulls, strict=True)], pa.int64()),
            "id": pa.array(ids, pa.int64()),
            "g": pa.array([i % 10 for i in ids], pa.int32()),
            "v": pa.array([i % 7 for i in ids], pa.int32()),
            "s": [format(k, "06d") for k in keys],
            "payload": [format(i * 7919, "x").rjust(_PAYLOAD, "abc"[i % 3]) for i in ids],
        }
    )


def build(keys: Iterable[int | None], key: str = "j") -> pa.Table:
    """A table with these keys.

    Columns: the key, `n` (unique, ascending), `h` (the key modulo 10), `t` (the key as text), `w` (unique,
        never null).
    """
    values = list(keys)
    return pa.table(
        {
            key: pa.array(values, pa.int64()),
            "n": pa.array(range(len(values)), pa.int64()),
            "h": pa.array([None if k is None else k % 10 for k in values], pa.int32()),
            "t": pa.array([None if k is None else format(k, "06d") for k in values], pa.string()),
            "w": pa.array([1_000 + i for i in range(len(values))], pa.int32()),
        }
    )


def view(spark: SparkSession, folder: Path, name: str, table: pa.Table, **options: Any) -> str:
    """Writes a table below `folder` and makes a view of it: four files for large tables, one for small."""
    path = folder / name
    if table.num_rows >= tables.ROWS:
        tables.write(table, path, write_page_index=True, **options)
    else:
        path.mkdir(parents=True)
        pq.write_table(table, path / "part-0.parquet", store_decimal_as_integer=True, **options)
    spark.read.parquet(str(path)).createOrReplaceTempView(name)
    return name


def within_row_group(number: int, count: int = 20) -> range:
    """Keys of the probe table that lie in one of its row groups only."""
    start = number * _KEYS_PER_ROW_GROUP + 10
    return range(start, start + count)


def register_slow(spark: SparkSession) -> None:
    """Makes a SQL function `slow(value, seconds)`: returns a bigint, after so many seconds if it is 7."""

    # A local function travels by value: workers cannot import this module.
    def slow(value: int, seconds: float) -> int:
        if value == 7:
            time.sleep(float(seconds))
        return value

    spark.udf.register("slow", slow, "bigint")


@contextmanager
def settings(spark: SparkSession, *groups: dict[str, str]) -> Iterator[None]:
    """Spark settings for the body of a `with` statement."""
    values = {key: value for group in groups for key, value in group.items()}
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


@dataclass
class Run:
    """One run of a query.

    Attributes:
        rows: its rows.
        seconds: how long they took.
    """

    spark: SparkSession
    tag: str
    rows: list[Row]
    seconds: float

    @cached_property
    def report(self) -> QueryReport | None:
        """What the plugin reported; None if Spark knew the rows without running anything."""
        return by_tag(self.spark, self.tag)

    @property
    def filters(self) -> list[Row]:
        return [f for f in self.report.filters if f["producer"] == "join"] if self.report else []

    @property
    def scans(self) -> list[Row]:
        return self.report.scans if self.report else []

    @property
    def plan(self) -> str:
        return self.report.plan if self.report else ""

    def on_column(self, column: str) -> list[Row]:
        """The join filters whose columns are or include this one."""
        return [f for f in self.filters if column in (f["columns"] or [])]

    def scans_with(self, column: str) -> list[Row]:
        """The scans that a join filter on this column is for."""
        ids = {f["filter_id"] for f in self.on_column(column)}
        return [s for s in self.scans if ids & set(s["filter_ids"] or [])]

    @property
    def analysis(self) -> Analysis | None:
        return Analysis(self.report, self.seconds) if self.report else None

    def __str__(self) -> str:
        return str(self.analysis or "no report")


def run(spark: SparkSession, query: str) -> Run:
    """Runs a query under the settings in force."""
    with tagged(spark) as tag:
        start = time.perf_counter()
        rows = spark.sql(query).collect()
        seconds = time.perf_counter() - start
    return Run(spark, tag, rows, seconds)


@dataclass
class Comparison:
    """A query without filters and with them; the rows of both are the same."""

    off: Run
    on: Run


@dataclass
class Comparer:
    """Runs queries with filters off and on; asserts that their rows are the same, and that a filter fired.

    `fires` is that of `assert_same_result`.

    Rows without filters are kept by `expected`, a name for all queries that must have the same rows, for
    example those that differ in nothing but their hints.
    """

    spark: SparkSession
    _off: dict[str, Run] = field(default_factory=dict)

    def __call__(
        self,
        query: str,
        *groups: dict[str, str],
        expected: str | None = None,
        plans: bool = False,
        fires: bool | None = True,
    ) -> Comparison:
        with settings(self.spark, *groups):
            off = self._off.get(expected or "")
            if off is None:
                with conf(self.spark).override(enabled=False):
                    off = run(self.spark, query)
                if expected:
                    self._off[expected] = off
            if plans:
                # Now: reports without filters are the first to be forgotten.
                assert off.report is not None
            for _ in range(FIRING_RUNS if fires else 1):
                on = run(self.spark, query)
                missing, extra = multiset_difference(off.rows, on.rows, 0.0)
                assert not missing and not extra, (  # noqa: PT018 - one message for both
                    f"{len(off.rows)} rows without filters, {len(on.rows)} with them\n"
                    f"missing ({len(missing)}): {missing[:5]}\nextra ({len(extra)}): {extra[:5]}\n"
                    f"{query}\n{on}"
                )
                if not may_fire_next_time(on.analysis):
                    break
        assert_fires(fires, query, on.analysis)
        return Comparison(off, on)


def assert_same_failure(spark: SparkSession, query: str) -> None:
    """A query fails with filters as it does without them: the exception's class and Spark's condition."""
    errors = []
    for enabled in (False, True):
        with conf(spark).override(enabled=enabled), pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's
            spark.sql(query).collect()
        errors.append((caught.type, getattr(caught.value, "getCondition", lambda: None)()))
    assert errors[0] == errors[1], query


def in_time(strategy: str, adaptive: str) -> bool | None:
    """`fires` of a join with a selective filter: None for a shuffled join without adaptive execution.

    No scan waits for the filter of such a join, so a scan of few rows may end first.
    """
    return True if strategy == "broadcast" or adaptive == "on" else None


def assert_ready(run: Run, *columns: str) -> None:
    """A join filter on each of the columns was built."""
    for column in columns:
        ready = [f for f in run.on_column(column) if f["state"] == "ready" and f["generation"] > 0]
        assert ready, f"no filter on {column} was ready:\n{run}"


def assert_pruned(run: Run, *columns: str) -> None:
    """A join filter on each of the columns was ready, and a scan skipped rows by it."""
    assert_ready(run, *columns)
    for column in columns:
        assert _skipped(run.scans_with(column)), f"no row was skipped by {column}:\n{run}"


def assert_row_groups_pruned(run: Run, *columns: str) -> None:
    """As `assert_pruned`, and whole row groups or files were never read."""
    assert_pruned(run, *columns)
    for column in columns:
        scans = run.scans_with(column)
        skipped = any(s["row_groups_pruned"] > 0 or s["files_pruned"] > 0 for s in scans)
        assert skipped, f"no row group was skipped by {column}:\n{run}"


def assert_never_read(run: Run, *columns: str) -> None:
    """No row left the scans of these columns: the build side was empty.

    Adaptive execution may be faster than the filter and drop the scan altogether.
    """
    for column in columns:
        output = [s["rows_output"] for s in run.scans_with(column)]
        assert not any(output), f"rows were read for an empty build side ({column}):\n{run}"


def assert_not_pruned(run: Run, *columns: str) -> None:
    """No join filter on these columns was built, and none of their rows was skipped."""
    for column in columns:
        built = [f for f in run.on_column(column) if f["generation"]]
        assert not built, f"a filter on {column} was built:\n{run}"
        assert not _skipped(run.scans_with(column)), f"rows were skipped by {column}:\n{run}"


def assert_reason(run: Run, *words: str) -> None:
    """One of the reasons why there is no filter has all of `words`."""
    reasons = [f["reason"] or "" for f in run.filters if f["state"] == "disabled"]
    assert any(contains_all(reason, words) for reason in reasons), (
        f"reasons are {reasons}, expected {words}\n{run}"
    )


def _skipped(scans: list[Row]) -> bool:
    # Rows of a file that was never opened are not counted: nobody has read how many there are.
    return any(s["rows_pruned"] > 0 or s["files_pruned"] > 0 for s in scans)

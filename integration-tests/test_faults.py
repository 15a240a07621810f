"""Queries with faults end in time, with the rows they have without filters; and the faults did happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import Faults, faults
from spark_dynamic_filters.testing._rows import multiset_difference
from support import joins
from support.applications import run_application, standalone_cluster, value

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

# A query that hangs ends here: all of them together take a few seconds.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(150)]


@dataclass
class Query:
    """A query and, once it has run without filters, its rows.

    Attributes:
        keys: columns to compare, where ties are free; empty for all.
        settings: Spark settings that it runs under.
    """

    text: str
    keys: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    expected: list[Row] | None = None

    def rows(self, spark: SparkSession) -> list[object]:
        rows = spark.sql(self.text).collect()
        return [tuple(r[k] for k in self.keys) for r in rows] if self.keys else list(rows)

    def check(self, spark: SparkSession) -> None:
        """Runs it with filters, under whatever faults there are."""
        with joins.settings(spark, self.settings):
            if self.expected is None:
                with sdf.conf(spark).override(enabled=False):
                    self.expected = self.rows(spark)
            missing, extra = multiset_difference(self.expected, self.rows(spark), 0.0)
        assert not missing, f"{self.text}\nmissing ({len(missing)}): {missing[:5]}\nextra: {extra[:5]}"
        assert not extra, f"{self.text}\nextra ({len(extra)}): {extra[:5]}"


_JOIN = "SELECT /*+ {hint}(few) */ p.id, p.k, p.payload, few.n FROM p JOIN few ON p.k = few.j WHERE few.h < 8"


@pytest.fixture(scope="module")
def queries(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, t: str, shuffled: str
) -> list[Query]:
    folder = tmp_path_factory.mktemp("joined")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build([*joins.within_row_group(3), *joins.within_row_group(11)]))
    few_tasks = {"spark.sql.shuffle.partitions": "2"}
    return [
        Query(f"SELECT * FROM {shuffled} ORDER BY c_bigint, id LIMIT 20"),
        Query(f"SELECT id, c_string FROM {t} WHERE grp < 7 ORDER BY c_string DESC, id LIMIT 100"),
        Query(_JOIN.format(hint="MERGE"), settings=few_tasks),
        Query(_JOIN.format(hint="BROADCAST"), settings=few_tasks),
        Query(
            "SELECT p.id, few.n, p.s FROM p JOIN few ON p.k = few.j ORDER BY p.id DESC LIMIT 15",
            settings=joins.SHUFFLED | few_tasks,
        ),
    ]


@pytest.fixture(autouse=True)
def _short_waits(spark: SparkSession) -> None:
    spark.conf.set("spark.dynamicFilters.join.waitTimeout", "20s")


def _check_all(spark: SparkSession, queries: list[Query], **kinds: float | None) -> Faults:
    with faults(spark, **kinds) as happened:  # type: ignore[arg-type]
        for query in queries:
            query.check(spark)
        # The driver counts; what executors told it may still be on its way.
        spark.range(1).collect()
    return happened


@pytest.mark.core
@pytest.mark.parametrize("kind", ["lost", "late", "duplicated", "reordered", "undecodable"])
def test_updates_with_faults(spark: SparkSession, queries: list[Query], kind: str) -> None:
    happened = _check_all(spark, queries, seed=1, **{kind: 0.7})
    assert happened.injected[kind] > 0, happened
    assert happened.total == happened.injected[kind], happened


def test_updates_that_are_later_than_their_queries(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries, late=1.0, delay=3.0)
    assert happened.injected["late"] > 0, happened


@pytest.mark.core
def test_every_task_fails_once_after_it_has_contributed(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries, failing_tasks=1.0)
    assert happened.injected["task_failed"] > 10, happened
    assert happened.seen["task_failures"] >= happened.injected["task_failed"], happened


def test_build_partition_that_never_reports_holds_nobody_back(
    spark: SparkSession, queries: list[Query]
) -> None:
    # The wait for the filter would take a minute.
    with joins.settings(spark, joins.FOREVER), faults(spark, lost=1.0) as happened:
        run = joins.run(spark, queries[2].text)
    assert happened.injected["lost"] > 0, happened
    assert run.seconds < 30, run
    reasons = [f["reason"] for f in run.filters]
    assert "the keys of some partitions of the build side did not reach the driver" in reasons, run


def test_faults_without_arguments(
    spark: SparkSession, t: str, assert_same_result: Callable[..., object]
) -> None:
    with faults(spark) as happened:
        for column in ("id", "c_int"):
            # A filter may be lost, or late.
            assert_same_result(f"SELECT * FROM {t} ORDER BY {column}, id LIMIT 50", fires=None)
    assert happened.total > 0, happened
    before = _settled(happened)
    spark.sql(f"SELECT * FROM {t} ORDER BY id LIMIT 5").collect()
    assert _settled(happened) == before, "faults go on after their with statement"


def _settled(happened: Faults) -> int:
    """How many faults there were, once updates of queries that have ended no longer arrive."""
    total = -1
    while total != happened.total:
        total = happened.total
        time.sleep(1.0)
    return total


def test_other_sessions_have_no_faults(
    spark: SparkSession, t: str, all_types_path: Path, new_session: Callable[[], SparkSession]
) -> None:
    other = new_session()
    # Not `total`: updates of queries that have ended are still on their way, late ones most of all. A task
    # that fails is counted before its query ends.
    with faults(spark, failing_tasks=1.0) as happened:
        other.read.parquet(str(all_types_path)).orderBy("id").limit(5).collect()
        assert happened.injected["task_failed"] == 0, happened
        spark.sql(f"SELECT * FROM {t} ORDER BY id LIMIT 5").collect()
        assert happened.injected["task_failed"] > 0, happened


def test_same_seed_same_failures(spark: SparkSession, t: str) -> None:
    failures = []
    for seed in (3, 3, 4):
        with faults(spark, seed=seed, failing_tasks=0.5) as happened:
            spark.sql(f"SELECT * FROM {t} ORDER BY c_int, id LIMIT 5").collect()
            failures.append(happened.injected["task_failed"])
    assert failures[0] == failures[1] > 0, failures


def test_nobody_can_inject_faults_into_a_normal_application(tmp_path: Path, spark_mode: str) -> None:
    if spark_mode != "classic":
        pytest.skip("an application of its own: the mode of the suite makes no difference")
    code = """
from spark_dynamic_filters.testing import faults, FaultsNotEnabled
from spark_dynamic_filters._jar import FAULTS_ENABLED, faults_jar_path
# The jar alone injects nothing.
quiet |= {FAULTS_ENABLED: "false", "spark.jars": faults_jar_path()}
spark = start("local[2]")
try:
    with faults(spark): pass
except FaultsNotEnabled as e:
    print("REFUSED", e)
for key, value in {"enabled": "true", "spec": "lost=1"}.items():
    try:
        spark.sql(f"SET spark.dynamicFilters.testing.faults.{key}={value}")
    except Exception as e:
        print("SET", key, str(e).replace("\\n", " "))
print("COUNTERS", [n for n in counters(spark) if n.startswith(("fault", "seen"))])
spark.stop()
"""
    # What injects faults stays in a JVM that had it once.
    out = run_application(code, tmp_path, own_process=True)
    assert "--conf spark.dynamicFilters.testing.faults.enabled=true" in value(out, "REFUSED")
    assert "CANNOT_MODIFY" in value(out, "SET enabled")
    assert "testing.faults.spec: no such setting" in value(out, "SET spec")
    assert value(out, "COUNTERS") == "[]"


# ---- what needs processes of its own


@pytest.fixture
def _processes(spark_mode: str) -> None:
    if spark_mode != "local-cluster":
        pytest.skip("needs executors that are processes of their own")


@pytest.mark.usefixtures("_processes")
def test_shuffle_files_that_are_gone(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries, fetch_failures=1.0)
    assert happened.injected["shuffle_removed"] > 0, happened
    assert happened.seen["fetch_failures"] > 0, happened


@pytest.mark.usefixtures("_processes")
def test_slow_coordinator(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries, slow_coordinator=0.5)
    assert happened.injected["coordinator_slow"] > 0, happened


@pytest.mark.usefixtures("_processes")
def test_undecodable_messages_are_counted_and_dropped(spark: SparkSession, queries: list[Query]) -> None:
    before = _refused(spark)
    # A query may end before it has sent any.
    for seed in range(5):
        _check_all(spark, queries * 2, seed=seed, undecodable=1.0)
        after = _refused(spark)
        if any(after[name] > before[name] for name in after if name.startswith("refused")):
            break
    else:
        pytest.fail(f"nothing was refused: {before}, {after}")
    assert after["failures"] == before["failures"], (before, after)


def _refused(spark: SparkSession) -> dict[str, int]:
    rows = spark.sql("SELECT name, value FROM dynamic_filter_counters()").collect()
    return {r["name"]: r["value"] for r in rows}


@pytest.mark.usefixtures("_processes")
def test_executor_that_held_the_best_rows_is_killed(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries[:1], killed_executors=1, kill_best=True)
    assert happened.injected["executor_killed"] == 1, happened
    assert happened.seen["executors_lost"] >= 1, happened


@pytest.mark.usefixtures("_processes")
def test_executors_are_killed_during_joins(spark: SparkSession, queries: list[Query]) -> None:
    happened = _check_all(spark, queries[2:4], killed_executors=1)
    assert happened.injected["executor_killed"] == 2, happened
    assert happened.seen["executors_lost"] >= 2, happened


@pytest.mark.usefixtures("_processes")
def test_copies_of_slow_tasks_change_nothing(spark_mode: str, shuffled_path: Path, tmp_path: Path) -> None:
    # Speculation is a setting of the application.
    code = """
from spark_dynamic_filters.testing import faults
spark = start(sys.argv[3], settings={
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.3",
    "spark.executor.memory": "600m",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "50ms",
    "spark.sql.files.maxPartitionBytes": "64k", "spark.sql.files.openCostInBytes": "64k",
    "spark.sql.shuffle.partitions": "2",
})
spark.read.parquet(sys.argv[2]).createOrReplaceTempView("t")
queries = [
    "SELECT * FROM t ORDER BY c_bigint, id LIMIT 20",
    "SELECT /*+ MERGE(b) */ a.id, b.seq FROM t a JOIN (SELECT * FROM t WHERE id < 60) b ON a.id = b.id",
]
def rows(q): return sorted(map(str, spark.sql(q).collect()))
with sdf.conf(spark).override(enabled=False):
    expected = [rows(q) for q in queries]
with faults(spark, seed=5, slow_tasks=0.4, slow=0.8) as happened:
    print("SAME", [rows(q) for q in queries] == expected)
    print("SLOW", happened.injected["task_slow"])
    print("COPIES", happened.seen["speculative_tasks"])
spark.stop()
"""
    # Spark puts no copy of a task on the same host, and local-cluster has but one.
    with standalone_cluster(tmp_path) as master:
        out = run_application(code, tmp_path, str(shuffled_path), master)
    assert value(out, "SAME") == "True"
    assert int(value(out, "SLOW")) > 0
    assert int(value(out, "COPIES")) > 0

"""Queries with faults end in time, with the rows they have without filters; and the faults did happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_dynamic_filters.testing import Faults, faults
from support import joins
from support.applications import run_application, value

# A query that hangs ends here: all of them together take a few seconds.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(150)]


_JOIN = "SELECT /*+ {hint}(few) */ p.id, p.k, p.payload, few.n FROM p JOIN few ON p.k = few.j WHERE few.h < 8"
_QUERIES = {
    "topk": "SELECT * FROM shuffled ORDER BY c_bigint, id LIMIT 20",
    "strings": "SELECT id, c_string FROM t WHERE grp < 7 ORDER BY c_string DESC, id LIMIT 100",
    "merge": _JOIN.format(hint="MERGE"),
    "broadcast": _JOIN.format(hint="BROADCAST"),
    "both": f"SELECT id, n FROM ({_JOIN.format(hint='MERGE')}) ORDER BY id DESC LIMIT 15",
}


@pytest.fixture(scope="module")
def compare(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, t: str, shuffled_path: Path
) -> Iterator[joins.Comparer]:
    spark.read.parquet(str(shuffled_path)).createOrReplaceTempView("shuffled")
    folder = tmp_path_factory.mktemp("joined")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build([*joins.within_row_group(3), *joins.within_row_group(11)]))
    short = {"spark.sql.shuffle.partitions": "2", "spark.dynamicFilters.join.waitTimeout": "20s"}
    with joins.settings(spark, short):
        yield joins.Comparer(spark)


def _check_all(compare: joins.Comparer, names: Iterable[str], **kinds: float | None) -> Faults:
    """Only tasks of filtered scans have faults: what the rows are compared with has none."""
    with faults(compare.spark, **kinds) as happened:  # type: ignore[arg-type]
        for name in names:
            # A filter may be lost, or late.
            compare(_QUERIES[name], expected=name, fires=None)
        # The driver counts; what executors told it may still be on its way.
        compare.spark.range(1).collect()
    return happened


@pytest.mark.core
@pytest.mark.parametrize("kind", ["lost", "duplicated", "reordered", "undecodable", "late"])
def test_updates_with_faults(compare: joins.Comparer, kind: str) -> None:
    """Each kind does happen; `test_generated_statements_with_faults` has other queries."""
    # Late ones, the last of these, come when their queries have ended.
    share = {kind: 1.0, "delay": 3.0} if kind == "late" else {kind: 0.7}
    happened = _check_all(compare, ["topk", "both"], seed=1, **share)
    assert happened.injected[kind] > 0, happened
    assert [k for k, n in happened.injected.items() if n > 0] == [kind], happened


@pytest.mark.usefixtures("compare")
def test_build_partition_that_never_reports_holds_nobody_back(spark: SparkSession) -> None:
    # The wait for the filter would take a minute.
    with joins.settings(spark, joins.FOREVER), faults(spark, lost=1.0) as happened:
        run = joins.run(spark, _QUERIES["merge"])
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


@pytest.mark.only("local-cluster")
@pytest.mark.parametrize(
    ("kinds", "names", "injected", "seen"),
    [
        ({"fetch_failures": 1.0}, list(_QUERIES), "shuffle_removed", "fetch_failures"),
        ({"slow_coordinator": 0.5}, list(_QUERIES), "coordinator_slow", None),
        # The executor that held the best rows.
        ({"killed_executors": 1, "kill_best": True}, ["topk"], "executor_killed", "executors_lost"),
        ({"killed_executors": 1}, ["merge", "broadcast"], "executor_killed", "executors_lost"),
    ],
    ids=["shuffle files", "slow coordinator", "best executor", "executors of joins"],
)
def test_faults_of_processes(
    compare: joins.Comparer, kinds: dict[str, Any], names: list[str], injected: str, seen: str
) -> None:
    happened = _check_all(compare, names, **kinds)
    # An executor a query.
    assert happened.injected[injected] >= (len(names) if "killed_executors" in kinds else 1), happened
    assert not seen or happened.seen[seen] > 0, happened


@pytest.mark.only("local-cluster")
def test_copies_of_slow_tasks_change_nothing(shuffled_path: Path, tmp_path: Path) -> None:
    # Speculation is a setting of the application. Spark puts no copy of a task on the same host, and
    # local-cluster has but one.
    code = """
from spark_dynamic_filters.testing import faults
from support.applications import standalone_cluster
queries = [
    "SELECT * FROM t ORDER BY c_bigint, id LIMIT 20",
    "SELECT /*+ MERGE(b) */ a.id, b.seq FROM t a JOIN (SELECT * FROM t WHERE id < 60) b ON a.id = b.id",
]
settings = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "50ms",
    "spark.sql.files.maxPartitionBytes": "64k", "spark.sql.files.openCostInBytes": "64k",
    "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "600m",
}
def rows(q): return sorted(map(str, spark.sql(q).collect()))
with standalone_cluster(folder) as master:
    spark = start(master, settings)
    spark.read.parquet(sys.argv[2]).createOrReplaceTempView("t")
    with sdf.conf(spark).override(enabled=False):
        expected = [rows(q) for q in queries]
    with faults(spark, seed=5, slow_tasks=0.4, slow=0.8) as happened:
        print("SAME", [rows(q) for q in queries] == expected)
        print("SLOW", happened.injected["task_slow"])
        print("COPIES", happened.seen["speculative_tasks"])
    spark.stop()
"""
    out = run_application(code, tmp_path, str(shuffled_path))
    assert value(out, "SAME") == "True"
    assert int(value(out, "SLOW")) > 0
    assert int(value(out, "COPIES")) > 0

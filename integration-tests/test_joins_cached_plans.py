"""A cached plan that is filled while a query reads it: it has a plan of its own within the same execution."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins
from support.joins import BROADCAST, FOREVER, SHUFFLED

_KEYS = 2_000
_DRAWN = 80


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cached-plans")
    rows = range(20_000)
    facts = {"x": [i % _KEYS for i in rows], "v": list(rows), "w": [i % 7 for i in rows]}
    joins.view(spark, folder, "facts", pa.table(facts))
    joins.view(spark, folder, "dim", pa.table({"k": range(50), "w": range(50)}))
    joins.view(spark, folder, "e", pa.table({"k": range(500), "w": [i * 37 % 1_000 for i in range(500)]}))


@pytest.mark.parametrize("cached_first", [True, False])
def test_cached_plan_and_query_draw_other_keys(spark: SparkSession, cached_first: bool) -> None:
    """Equal plans, of which each draws its keys once: the cached one others than the query that reads it."""

    # A local function travels by value: workers cannot import this module.
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = [i * 500 + k for i in batch.column(0).to_pylist() for k in random.sample(range(500), 20)]
            yield pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())})

    def joined(column: str) -> str:
        groups = f"(SELECT /*+ DYNAMIC_FILTER(facts) */ x, count({column}) AS n FROM facts GROUP BY x)"
        return f"SELECT /*+ BROADCAST(drawn) */ q.x, q.n FROM {groups} q JOIN drawn ON q.x = drawn.k"

    with joins.settings(spark, BROADCAST, FOREVER):
        spark.range(4, numPartitions=2).mapInArrow(draw, "k bigint").createOrReplaceTempView("drawn")
        cached = spark.sql(joined("v")).cache()
        cached.createOrReplaceTempView("kept")
        parts = [
            "SELECT 'kept' AS s, count(*) AS n FROM kept",
            f"SELECT 'now' AS s, count(*) AS n FROM ({joined('w')})",
        ]
        run = joins.run(spark, " UNION ALL ".join(parts if cached_first else parts[::-1]))
        assert sorted(map(tuple, run.rows)) == [("kept", _DRAWN), ("now", _DRAWN)], str(run)
        assert cached.count() == _DRAWN
        cached.unpersist(blocking=True)
    joins.assert_pruned(run, "x")


# What a cached table is filled by: the build side of the last join notes each call and takes two seconds.
_NOTED = "(SELECT k FROM dim WHERE noted(w) < 40)"
_FILLS = {
    "held back when the query ends": (
        f"SELECT /*+ DYNAMIC_FILTER(f) */ f.x, f.v FROM facts f JOIN {_NOTED} d ON f.x = d.k"
    ),
    "planned after the query has ended": (
        "SELECT z.x, z.v FROM (SELECT /*+ BROADCAST(s), DYNAMIC_FILTER(f) */ f.x, f.v FROM facts f "
        f"JOIN {_NOTED} s ON f.w = s.k) z JOIN (SELECT k FROM dim WHERE w < 40) d ON z.x = d.k"
    ),
}


@pytest.mark.parametrize("fill", _FILLS)
def test_filling_of_a_cached_table_goes_on_when_its_query_ends(
    spark: SparkSession, tmp_path: Path, fill: str
) -> None:
    """A subquery reads the cached rows, and adaptive execution finds that the query needs no subquery."""
    calls = str(tmp_path / "calls")

    # A local function travels by value: workers cannot import this module.
    def noted(value: int) -> int:
        if value == 7:
            with Path(calls).open("a") as file:
                file.write("x")
            time.sleep(2.0)
        return value

    spark.udf.register("noted", noted, "bigint")
    query = (
        "SELECT count(*) FROM (SELECT x FROM facts WHERE v > (SELECT max(v) - 100 FROM c)) a "
        "JOIN (SELECT k FROM e WHERE w * 3 = 7) b ON a.x = b.k"
    )
    with joins.settings(spark, SHUFFLED, FOREVER):
        cached = spark.sql(_FILLS[fill]).cache()
        cached.createOrReplaceTempView("c")
        assert spark.sql(query).collect()[0][0] == 0
        time.sleep(3.0)
        assert cached.count() == 400
        cached.unpersist(blocking=True)
    assert Path(calls).read_text() == "x"


def test_plan_under_the_id_of_another_query_waits_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A join of a subquery that the cached plan's own query has broadcast before, without a tap: in a plan
    that the query, whose id it has, does not hold, nobody sees that."""
    rows = range(30_000)
    joins.view(spark, tmp_path, "sales", pa.table({"id": rows, "c": [i % 7_000 for i in rows]}))
    customers = {"k": range(9_000), "a": [i * 7 % 4_000 for i in range(9_000)]}
    joins.view(spark, tmp_path, "customers", pa.table(customers))
    joins.view(spark, tmp_path, "addresses", pa.table({"k": range(100, 3_000), "x": range(2_900)}))
    query = (
        "WITH s AS (SELECT sales.id, customers.k, addresses.x FROM sales "
        "JOIN customers ON sales.c = customers.k JOIN addresses ON customers.a = addresses.k) "
        "SELECT k, sum(x) AS t FROM s WHERE id % 3 = 0 GROUP BY k HAVING sum(x) > (SELECT avg(x) FROM s)"
    )
    counts = []
    for enabled in (False, True):
        with joins.settings(spark, SHUFFLED, FOREVER), sdf.conf(spark).override(enabled=enabled):
            cached = spark.sql(query).cache()
            cached.createOrReplaceTempView("kept")
            start = time.perf_counter()
            spark.sql("ANALYZE TABLE kept COMPUTE STATISTICS FOR COLUMNS k, t")
            seconds = time.perf_counter() - start
            counts.append(cached.count())
            cached.unpersist(blocking=True)
        assert seconds < 25, enabled
    assert counts[0] == counts[1] > 0


@pytest.mark.processes
def test_plan_under_the_id_of_a_query_that_has_ended(spark: SparkSession, spark_mode: str) -> None:
    """Threads inherit the id: a pool that the function of a streaming batch has made keeps its batch's."""
    if spark_mode == "connect":
        pytest.skip("a session of Spark Connect has no threads of the driver")
    context, key = spark.sparkContext, "spark.sql.execution.id"
    few = "(SELECT k FROM dim WHERE w < 20)"
    query = f"SELECT /*+ DYNAMIC_FILTER(f) */ f.x FROM facts f JOIN {few} d ON f.x = d.k"
    with joins.settings(spark, SHUFFLED, FOREVER):
        ended = spark.sql(query)
        assert len(ended.collect()) == 200
        number = max(row["query_id"] for row in sdf.filters(spark).collect())
        context.setLocalProperty(key, str(number))
        try:
            assert spark.sql(query).rdd.count() == 200
        finally:
            context.setLocalProperty(key, None)


# It needs a second session of the same application, which Connect has not.
@pytest.mark.exhaustive
def test_cached_plan_of_a_session_with_another_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    """Equal plans over text files, whose readers take the time zone from their session: other keys."""
    start = dt.datetime(2024, 1, 1)
    lines = [f"{start + dt.timedelta(minutes=i)},{i % 20}\n" for i in range(400)]
    (tmp_path / "dim").mkdir()
    (tmp_path / "dim" / "a.csv").write_text("".join(lines))
    first = dt.datetime(2023, 12, 20, tzinfo=dt.UTC)
    times = pa.array([first + dt.timedelta(minutes=i) for i in range(60_000)], pa.timestamp("us", tz="UTC"))
    sessions = {"UTC": spark, "America/New_York": spark.newSession()}
    for name in ("f1", "f2"):
        joins.view(spark, tmp_path, name, pa.table({"k": times, "v": range(60_000), name: range(60_000)}))
    zone = spark.conf.get("spark.sql.session.timeZone")
    part = "SELECT f.v FROM {} f JOIN dim d ON f.k = d.j WHERE d.n < 5"
    try:
        for name, session in sessions.items():
            session.conf.set("spark.sql.session.timeZone", name)
            for table in ("f1", "f2"):
                session.read.parquet(str(tmp_path / table)).createOrReplaceTempView(table)
            session.read.schema("j timestamp, n int").csv(str(tmp_path / "dim")).createOrReplaceTempView(
                "dim"
            )
        cacher, reader = sessions.values()
        query = " UNION ALL ".join(
            f"SELECT '{t}' AS t, count(*) AS n, max(v) FROM ({part.format(t)})" for t in ("f1", "f2")
        )
        # Which of the build sides is the first differs from run to run.
        for _ in range(2):
            with joins.settings(cacher, SHUFFLED), joins.settings(reader, SHUFFLED):
                cached = cacher.sql(part.format("f1")).cache()
                run = joins.run(reader, query)
                cached.unpersist(blocking=True)
                assert "InMemoryTableScan" in run.plan, str(run)
                assert [row.n for row in sorted(run.rows)] == [100, 100], str(run)
        joins.assert_ready(run, "k")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

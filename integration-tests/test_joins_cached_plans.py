"""A cached plan that is filled while a query reads it: it has a plan of its own within the same execution."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from support import joins
from support.joins import BROADCAST, FOREVER, SHUFFLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.processes, pytest.mark.timeout(170)]

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

    for enabled in (False, True):
        with joins.settings(spark, BROADCAST, FOREVER), sdf.conf(spark).override(enabled=enabled):
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


def test_filling_of_a_cached_table_goes_on_when_its_query_ends(spark: SparkSession, tmp_path: Path) -> None:
    """A subquery reads the cached rows, and adaptive execution finds that the query needs no subquery."""
    calls = str(tmp_path / "calls")

    # A local function travels by value: workers cannot import this module.
    def noted(value: int) -> int:
        if value == 7:
            with Path(calls).open("a") as file:
                file.write("x")
            time.sleep(3.0)
        return value

    spark.udf.register("noted", noted, "bigint")
    cached_query = (
        "SELECT /*+ DYNAMIC_FILTER(f) */ f.x, f.v FROM facts f "
        "JOIN (SELECT k FROM dim WHERE noted(w) < 40) d ON f.x = d.k"
    )
    query = (
        "SELECT count(*) FROM (SELECT x FROM facts WHERE v > (SELECT max(v) - 100 FROM c)) a "
        "JOIN (SELECT k FROM e WHERE w * 3 = 7) b ON a.x = b.k"
    )
    for enabled in (False, True):
        (tmp_path / "calls").write_text("")
        with joins.settings(spark, SHUFFLED, FOREVER), sdf.conf(spark).override(enabled=enabled):
            cached = spark.sql(cached_query).cache()
            cached.createOrReplaceTempView("c")
            start = time.perf_counter()
            assert spark.sql(query).collect()[0][0] == 0
            ended_early = time.perf_counter() - start < 2.5
            time.sleep(4.0)
            assert cached.count() == 400
            cached.unpersist(blocking=True)
        # Where the query ended late, it has waited for the cached rows.
        if ended_early or enabled:
            assert (tmp_path / "calls").read_text() == "x", enabled

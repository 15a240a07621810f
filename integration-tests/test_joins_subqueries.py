"""Joins that a query and its subqueries have in common, or nearly: each is planned without the others, Spark
computes equal exchanges once, and filters of equal build sides are one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support import joins
from support.joins import FOREVER, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: a fact table f, of whose keys k a third is in d, of whose keys only few are in e; h has the
    rows of f in a folder for each w, which the keys have in d, too."""
    folder = tmp_path_factory.mktemp("subqueries")
    joins.view(spark, folder, "f", joins.probe())
    by_w = spark.table("f").selectExpr("k", "id", "k DIV 3 % 7 AS w").where("k IS NOT NULL").coalesce(1)
    by_w.write.partitionBy("w").parquet(str(folder / "h"))
    spark.read.parquet(str(folder / "h")).createOrReplaceTempView("h")
    keys = pa.array(range(0, 1_800, 3), pa.int64())
    joins.view(spark, folder, "d", pa.table({"k": keys, "w": [i % 7 for i in range(len(keys))]}))
    joins.view(spark, folder, "e", pa.table({"k": pa.array(range(300, 330), pa.int64())}))
    return Comparer(spark)


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_build_side_that_another_join_narrows_is_another_one(compare: Comparer, adaptive: str) -> None:
    """Both subqueries join f with the same rows of d, by the same key. In the first one d is narrowed by e
    before its keys are collected, because all three are shuffled by that key. The second one runs when the
    first one has ended."""
    d = "(SELECT /*+ DYNAMIC_FILTER(d) */ d.k FROM d WHERE d.w < 5)"
    first = (
        "(SELECT /*+ DYNAMIC_FILTER(f) */ count(f.payload) FROM f "
        f"JOIN (SELECT d.k FROM {d} d JOIN e ON d.k = e.k) d ON f.k = d.k)"
    )
    second = f"(SELECT /*+ DYNAMIC_FILTER(f) */ count(f.payload) FROM f JOIN {d} d ON f.k = d.k)"
    query = (
        f"SELECT g, n, {second} AS s FROM (SELECT g, count(*) AS n FROM f WHERE g < {first} GROUP BY g) "
        f"WHERE n + {second} > 0"
    )
    run = compare(query, joins.SHUFFLED, joins.ADAPTIVE[adaptive], FOREVER).on
    assert run.rows
    if adaptive == "on":
        # Otherwise nothing waits for a shuffled join's filter, and a scan of this size may end before.
        joins.assert_pruned(run, "k")


_OF_YEAR = "d.w < 5"
_COUNTED = f"(SELECT count(d.k) FROM e LEFT JOIN d ON e.k = d.k AND {_OF_YEAR})"
_JOINED = f"(SELECT min(f.k) FROM f JOIN d ON f.k = d.k WHERE {_OF_YEAR})"


@pytest.mark.parametrize(
    ("query", "column"),
    [
        # Broadcasts of dynamic partition pruning are planned without any rule of ours.
        ("SELECT h.id FROM h JOIN d ON h.k = d.k AND h.w = d.w WHERE d.k % 100 = 6", "k"),
        # In the left join every row counts, so there its broadcast has no tap.
        (f"SELECT f.id FROM f JOIN d ON f.k = d.k WHERE {_OF_YEAR} AND f.id > {_COUNTED}", "k"),
        # The query's broadcast comes before that of the subquery, which is above the join.
        (
            f"SELECT e.k FROM e LEFT JOIN d ON e.k = d.k AND {_OF_YEAR} WHERE ifnull(d.k, e.k) >= {_JOINED}",
            "k",
        ),
    ],
    ids=["partition_pruning", "of_the_subquery", "of_the_query"],
)
def test_without_adaptive_execution_one_broadcast_is_of_a_query_and_its_subquery(
    compare: Comparer, query: str, column: str
) -> None:
    """Spark computes the one that it comes to first. If only the other one collects keys, no filter is ever
    complete, and the reason is that the build side did not run."""
    run = compare(query, joins.BROADCAST, joins.ADAPTIVE["off"], plans=True)
    assert run.on.rows
    assert run.off.plan.count("ReusedExchange") == run.on.plan.count("ReusedExchange") == 1
    joins.assert_pruned(run.on, column)
    assert {f["state"] for f in run.on.filters if f["filter_id"] is not None} == {"ready"}, run.on


_BLOOM = {
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold": "10MB",
}
_OF_D = "(SELECT d.k FROM d JOIN e ON d.k = e.k WHERE d.w < 5)"
_EXISTS = f"EXISTS (SELECT 1 FROM f f2 JOIN {_OF_D} d2 ON f2.k = d2.k)"


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("conf", [{}, _BLOOM], ids=["exists", "bloom"])
def test_equal_subqueries_run_once(compare: Comparer, conf: dict[str, str], adaptive: str) -> None:
    """A filter whose build side may have other keys in a second run equals no other filter, so Spark does not
    reuse subqueries with such filters. The LIMIT 1 of an EXISTS and Spark's bloom filters of joins were taken
    for causes of that: nested subqueries ran once for each place (5 s became 108)."""
    in_d = f"(SELECT f3.k FROM f f3 JOIN {_OF_D} d3 ON f3.k = d3.k WHERE {_EXISTS})"
    top = f"(SELECT max(f4.id) FROM f f4 JOIN {in_d} d4 ON f4.k = d4.k)"
    query = f"SELECT f.id FROM f JOIN d ON f.k = d.k WHERE {_EXISTS} AND f.id <= {top} AND d.w < {top}"
    run = compare(query, joins.SHUFFLED, joins.ADAPTIVE[adaptive], conf, plans=True, fires=None)
    assert run.off.plan.count("ReusedSubquery") > 0, run.off.plan
    assert run.on.plan.count("FileScan") <= run.off.plan.count("FileScan"), run.on.plan

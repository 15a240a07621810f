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
    """Tables: a fact table f, of whose keys k a third is in d, of whose keys only few are in e."""
    folder = tmp_path_factory.mktemp("subqueries")
    joins.view(spark, folder, "f", joins.probe())
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

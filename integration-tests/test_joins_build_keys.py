"""Keys that the build side computes: the filter has to have the values that the join has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import FOREVER, STRATEGIES, Comparer

_ROWS = 8_000

# Sums of three and more have a canonical form that adds up in another order, or cannot be evaluated at all.
_KEYS = {
    "sum of three": ("x", "d.k + d.k + 7"),
    "floating point, large values first": ("y", "d.a + d.b + d.c"),
    "function of elements": ("x", "aggregate(array(d.k, 5L), 0L, (s, i) -> s + i)"),
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("build-keys")
    facts = {"x": [i // 20 - 50 for i in range(_ROWS)], "v": list(range(_ROWS))}
    joins.view(spark, folder, "f", pa.table(facts | {"y": [float(x) for x in facts["x"]]}))
    keys = range(-30, 30)
    large = {"a": [1e16] * 60, "b": [-1e16] * 60, "c": [float(k) for k in keys]}
    joins.view(spark, folder, "d", pa.table({"k": list(keys), **large}))


@pytest.mark.core
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("key", _KEYS)
def test_computed_key(compare: Comparer, key: str, strategy: str, flat: bool) -> None:
    column, expression = _KEYS[key]
    # With it Spark flattens sums of three, and not only of thousands.
    threshold = {"spark.sql.analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold": "1000"}
    query = f"SELECT /*+ DYNAMIC_FILTER(f) */ f.x, f.v FROM f JOIN d ON f.{column} = {expression}"
    compare(query, STRATEGIES[strategy], FOREVER, threshold if flat else {})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subquery_in_a_projection_above_the_exchange(
    spark: SparkSession, compare: Comparer, tmp_path: Path, strategy: str
) -> None:
    joins.view(spark, tmp_path, "one", pa.table({"z": [5, 7, 3]}))
    build = "SELECT k + (SELECT max(z) FROM one) AS kk FROM (SELECT /*+ REPARTITION(1) */ k FROM d)"
    probe = "SELECT /*+ REPARTITION(1), DYNAMIC_FILTER(f) */ * FROM f"
    query = f"SELECT p.x, p.v FROM ({probe}) p JOIN ({build}) b ON p.x = b.kk"
    # The key of a shuffled join is computed where its subquery has no result yet.
    run = compare(query, STRATEGIES[strategy], FOREVER, fires=strategy == "broadcast").on
    if strategy == "shuffled":
        assert not any("did not reach the driver" in (f["reason"] or "") for f in run.filters), str(run)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "build",
    [
        "SELECT k FROM (SELECT /*+ REPARTITION_BY_RANGE(3, k) */ k FROM d WHERE k % 3 = 0) GROUP BY k",
        "SELECT /*+ REPARTITION_BY_RANGE(1, k) */ k FROM d WHERE k % 3 = 0",
    ],
    ids=["groups", "one_partition"],
)
def test_build_side_that_is_partitioned_by_range(
    compare: Comparer, build: str, strategy: str, adaptive: str
) -> None:
    """Spark first runs a job that samples the rows for the bounds of the ranges. It iterates over all of
    them, and a partition that reports from both jobs counts once."""
    query = f"SELECT /*+ DYNAMIC_FILTER(f) */ f.x, f.v FROM f JOIN ({build}) d ON f.x = d.k"
    settings = (STRATEGIES[strategy], FOREVER, joins.ADAPTIVE[adaptive])
    compare(query, *settings, fires=joins.in_time(strategy, adaptive))

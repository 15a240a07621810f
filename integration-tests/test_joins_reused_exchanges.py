"""Exchanges that Spark uses twice: filters neither split nor narrow them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import joins
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probes p (key k) and q (key m), and build b with keys of one row group."""
    folder = tmp_path_factory.mktemp("reused")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "q", joins.probe(key="m"))
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    return Comparer(spark)


# Queries that Spark answers with one exchange in two places.
REUSES = {
    "aggregate": (
        "WITH c AS (SELECT k, count(*) AS n FROM p GROUP BY k) "
        "SELECT x.k, y.n FROM c x JOIN c y ON x.k = y.k WHERE y.n > 1"
    ),
    "one_side": (
        "WITH c AS (SELECT /*+ REPARTITION(4, k) */ k, id FROM p) "
        "SELECT x.k, x.id, b.n FROM c x JOIN b ON x.k = b.j UNION ALL SELECT k, id, 0 FROM c"
    ),
    "build": (
        "WITH c AS (SELECT j, count(*) AS n FROM b GROUP BY j) SELECT p.id, c.n FROM p JOIN c ON p.k = c.j "
        "UNION ALL SELECT q.id, c.n FROM q JOIN c ON q.m = c.j"
    ),
    "two_builds": "SELECT p.id, x.n, y.n FROM p JOIN b x ON p.k = x.j JOIN b y ON p.k = y.j AND x.n = y.n",
    "self_join": "SELECT x.id FROM p x JOIN p y ON x.k = y.k AND x.id = y.id WHERE x.k IN (SELECT j FROM b)",
    "two_probes": "SELECT p.id FROM p JOIN b ON p.k = b.j UNION ALL SELECT q.id FROM q JOIN b ON q.m = b.j",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("case", REUSES)
def test_reuse_of_exchanges_is_kept(compare: Comparer, case: str, adaptive: str, strategy: str) -> None:
    settings = STRATEGIES[strategy]
    # The exchange of p, which is needed as a whole, is the probe side.
    whole = (case, strategy) == ("self_join", "shuffled")
    fires = False if whole else joins.in_time(strategy, adaptive)
    result = compare(REUSES[case], settings, joins.ADAPTIVE[adaptive], plans=True, fires=fires)
    assert "Exchange" in result.off.plan
    for node in ("ReusedExchange", "ShuffleQueryStage", "BroadcastQueryStage"):
        assert result.on.plan.count(node) == result.off.plan.count(node), (
            f"{node}\n{result.off.plan}\n{result.on}"
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_reused_build_side_filters_both_probes(compare: Comparer, strategy: str) -> None:
    settings = STRATEGIES[strategy]
    joins.assert_row_groups_pruned(compare(REUSES["two_probes"], settings).on, "k", "m")

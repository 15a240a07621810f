"""Joins over tables of other kinds, and under settings and features of Spark that change how they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from support import joins, tables
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p with key k, build b with keys of one row group."""
    folder = tmp_path_factory.mktemp("sources")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    return Comparer(spark)


def test_partition_column_with_nulls(spark: SparkSession, tmp_path: Path, compare: Comparer) -> None:
    spark.sql("SELECT *, IF(g = 0, NULL, CAST(g AS STRING)) AS part FROM p").write.partitionBy(
        "part"
    ).parquet(str(tmp_path / "parted"))
    spark.read.schema("k BIGINT, id BIGINT, payload STRING, part STRING").parquet(
        str(tmp_path / "parted")
    ).createOrReplaceTempView("parted")
    off = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}
    for how in ("=", "<=>"):
        query = (
            "SELECT x.id FROM parted x "
            f"JOIN (SELECT IF(n = 1, NULL, '7') AS part FROM b WHERE n < 3) y ON x.part {how} y.part"
        )
        for settings in STRATEGIES.values():
            result = compare(query, off, settings)
            assert result.off.rows


def test_bucketed_tables(spark: SparkSession, compare: Comparer) -> None:
    for name, source, key in (("bucketed_p", "p", "k"), ("bucketed_b", "b", "j")):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.table(source).write.bucketBy(4, key).sortBy(key).saveAsTable(name)
    try:
        # A join that is not broadcast needs no exchange on either side: nothing collects the keys.
        query = "SELECT p.id, b.n FROM bucketed_p p JOIN bucketed_b b ON p.k = b.j"
        for strategy, settings in STRATEGIES.items():
            assert compare(query, settings, fires=strategy == "broadcast").off.rows
        # The groups are of the same stage as the join, and come from its scan: the same in every attempt.
        grouped = "(SELECT k, count(*) AS c, percentile_approx(id, 0.5) AS m FROM bucketed_p GROUP BY k) g"
        query = f"SELECT g.k, g.c, g.m, b.n FROM {grouped} JOIN b ON g.k = b.j"
        joins.assert_pruned(compare(query, STRATEGIES["broadcast"]).on, "k")
    finally:
        spark.sql("DROP TABLE bucketed_p")
        spark.sql("DROP TABLE bucketed_b")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_observed_metrics_are_not_changed(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    from pyspark.sql import Observation

    def observed() -> tuple[DataFrame, Observation]:
        observation = Observation()
        frame = spark.table("p").observe(observation, F.count(F.lit(1)).alias("rows"))
        return frame.join(spark.table("b"), F.col("k") == F.col("j")).select("id"), observation

    settings = STRATEGIES[strategy]
    with joins.settings(spark, settings):
        frame, observation = observed()
        rows = frame.collect()
    assert len(rows) > 0
    assert observation.get["rows"] == tables.ROWS

"""What depends on a row's partition and place: with filters, a join's rows have the random numbers, samples
and ids that they have in stock Spark, in the first run and when the files are known.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import assert_same_result
from support import joins
from support.user_filters import reported, users

_FILES = 16
_ROWS = 500
_KEYS = [3 * i + 1_000 for i in range(300)]
_JOIN = "SELECT {columns} FROM random_probe JOIN random_keys USING (k)"

# Several files a partition, so that leaving one out would move the rest into other partitions.
_SPLITS = {
    "spark.sql.files.maxPartitionBytes": "64k",
    "spark.sql.files.openCostInBytes": "8k",
    **joins.BROADCAST,
}


@pytest.fixture(autouse=True)
def probe(spark: SparkSession, tmp_path: Path) -> None:
    """Files of ascending keys that no query has read before."""
    folder = tmp_path / "probe"
    folder.mkdir()
    for i in range(_FILES):
        keys = range(i * _ROWS, (i + 1) * _ROWS)
        table = pa.table({"k": pa.array(keys, pa.int64()), "v": [float(k) for k in keys]})
        pq.write_table(table, folder / f"part-{i:02}.parquet", row_group_size=100)
    pq.write_table(pa.table({"k": pa.array(_KEYS, pa.int64())}), tmp_path / "keys.parquet")
    spark.read.parquet(str(folder)).createOrReplaceTempView("random_probe")
    spark.read.parquet(str(tmp_path / "keys.parquet")).createOrReplaceTempView("random_keys")


@pytest.mark.parametrize(
    "query",
    [
        _JOIN.format(columns="k, rand(5) AS r"),
        _JOIN.format(columns="k, monotonically_increasing_id() AS r"),
        _JOIN.format(columns="k, spark_partition_id() AS r"),
        f"SELECT k FROM ({_JOIN.format(columns='k')}) TABLESAMPLE (30 PERCENT) REPEATABLE (3)",
    ],
)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_the_same_in_each_run(spark: SparkSession, query: str, adaptive: str) -> None:
    compare = joins.Comparer(spark)
    for _ in range(2):
        on = compare(query, _SPLITS, joins.ADAPTIVE[adaptive], expected=query).on
        joins.assert_pruned(on, "k")


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_functions_of_whole_partitions_see_those_of_stock_spark(spark: SparkSession, adaptive: str) -> None:
    def sums(batches):  # noqa: ANN001, ANN202 - a local function travels by value
        import pandas as pd

        yield pd.DataFrame({"s": [sum(int(b["k"].sum()) for b in batches)]})

    joined = spark.table("random_probe").join(F.broadcast(spark.table("random_keys")), "k")
    with joins.settings(spark, _SPLITS, joins.ADAPTIVE[adaptive]):
        # The later runs know which files have none of the keys.
        for _ in range(2):
            result = assert_same_result(spark, lambda: joined.mapInPandas(sums, "s bigint"))
            assert len(result.off) > 1


# Adaptive execution makes partitions of this size, as it measures it: with fewer rows there are others.
_BY_SIZE = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "4k",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.shuffle.partitions": "16",
}


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    "query",
    [
        _JOIN.format(columns="k, spark_partition_id() AS r"),
        _JOIN.format(columns="k, rand(5) AS r"),
        # Adaptive execution shares out tasks between the branches by what they shuffle.
        _JOIN.format(columns="k, rand(5) AS r")
        + " UNION ALL SELECT k, 0D FROM random_probe JOIN random_keys USING (k) WHERE k < 1500",
        # Three shuffles that one stage reads, of which the numbers see two.
        f"SELECT x.k, r FROM ({_JOIN.format(columns='k, rand(5) AS r')}) x"
        " JOIN random_probe y ON x.k = y.k JOIN random_keys z ON x.k = z.k WHERE z.k < 1500",
    ],
)
def test_partitions_that_are_made_by_size_are_those_of_stock_spark(
    spark: SparkSession, query: str, adaptive: str
) -> None:
    groups = (_SPLITS, joins.SHUFFLED, _BY_SIZE, joins.ADAPTIVE[adaptive])
    run = joins.Comparer(spark)(query, *groups, fires=False).on
    if "random_keys z" not in query:
        joins.assert_reason(run, "depends on the partition of each row")


def test_the_same_join_is_filtered_where_nothing_shows(spark: SparkSession) -> None:
    run = joins.Comparer(spark)(_JOIN.format(columns="k"), _SPLITS, joins.SHUFFLED, _BY_SIZE).on
    joins.assert_pruned(run, "k")


def test_groups_come_out_in_the_order_of_stock_spark(spark: SparkSession) -> None:
    # More groups than a map keeps them in: then they are sorted.
    groups = spark.table("random_probe").coalesce(1).groupBy("k").agg(F.collect_list("v").alias("l"))
    frame = groups.join(F.broadcast(spark.table("random_keys").where("k < 1200")), "k")
    with joins.settings(spark, _SPLITS):
        result = assert_same_result(spark, lambda: frame.select("k", F.rand(5)), fires=None)
    assert any("depends on the order of its groups" in reason for reason in result.reasons()), result.filters


_NUMBERED = (
    "FROM (SELECT monotonically_increasing_id() AS n, k, v FROM random_probe) JOIN random_keys USING (k)"
)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_numbers_of_rows_are_those_of_stock_spark(spark: SparkSession, strategy: str, adaptive: str) -> None:
    """With rows missing below, rows would have other numbers."""
    queries = [
        f"SELECT count(*), max(c) FROM (SELECT n, count(*) AS c {_NUMBERED} GROUP BY n)",
        f"SELECT n, k {_NUMBERED}",
        f"SELECT n % 2 AS m, count(*) {_NUMBERED} GROUP BY m",
        f"SELECT k FROM (SELECT n, k {_NUMBERED}) ORDER BY n LIMIT 3",
        # Under the name that the first branch gives it.
        f"SELECT CAST(0 AS BIGINT) AS n, k FROM random_keys UNION ALL SELECT n, k {_NUMBERED}",
        f"SELECT a.k FROM (SELECT n, k {_NUMBERED}) a JOIN random_keys b ON a.n = b.k",
    ]
    settings = (_SPLITS, joins.STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER)
    for query in queries:
        run = joins.Comparer(spark)(query, *settings, fires=None).on
        pruned = any(s["rows_pruned"] for s in run.scans if s["table_name"].endswith("probe"))
        assert not pruned, f"{query}\n{run}"


@pytest.mark.parametrize(
    "condition",
    [
        "rand(1) < 0.5 AND dynamic_filter('few', k)",
        "rand(1) < 0.5 AND v > 5 AND dynamic_filter('few', k)",
    ],
)
def test_random_numbers_beside_a_user_filter(spark: SparkSession, condition: str) -> None:
    query = f"SELECT k FROM random_probe WHERE {condition}"
    with joins.settings(spark, _SPLITS), sdf.create_filter(spark, "few", "bigint") as few:
        few.update(sdf.between(4_250, 6_020))
        df = spark.sql(query)
        for _ in range(2):
            with sdf.conf(spark).override(enabled=False):
                expected = sorted(df.collect())
            assert expected
            found, report = reported(spark, lambda: sorted(spark.sql(query).collect()))
            assert found == expected
            (user,) = users(report)
            assert user["reason"].endswith("another condition of the same WHERE is non-deterministic")

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
from spark_dynamic_filters._analyze import tagged
from support import joins
from support.user_filters import reported, users

pytestmark = pytest.mark.timeout(150)

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


@pytest.fixture
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


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    "query",
    [
        _JOIN.format(columns="k, rand(5) AS r"),
        _JOIN.format(columns="k") + " WHERE rand(5) < 0.4",
        _JOIN.format(columns="k, monotonically_increasing_id() AS r"),
        _JOIN.format(columns="k, spark_partition_id() AS r"),
        f"SELECT k FROM ({_JOIN.format(columns='k')}) TABLESAMPLE (30 PERCENT) REPEATABLE (3)",
    ],
)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_the_same_in_each_run(spark: SparkSession, query: str, adaptive: str) -> None:
    compare = joins.Comparer(spark)
    for _ in range(3):
        on = compare(query, _SPLITS, joins.ADAPTIVE[adaptive], expected=query).on
        joins.assert_pruned(on, "k")


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_halves_of_a_random_split_are_all_rows(spark: SparkSession, adaptive: str) -> None:
    with joins.settings(spark, _SPLITS, joins.ADAPTIVE[adaptive]):
        joined = spark.table("random_probe").join(F.broadcast(spark.table("random_keys")), "k")
        # The second half runs when the first has shown which files have none of the keys.
        halves = []
        for half in joined.randomSplit([0.5, 0.5], seed=7):
            with tagged(spark) as tag:
                rows = half.collect()
            joins.assert_pruned(joins.Run(spark, tag, rows, 0.0), "k")
            halves.append([r["k"] for r in rows])
        with sdf.conf(spark).override(enabled=False):
            stock = [[r["k"] for r in half.collect()] for half in joined.randomSplit([0.5, 0.5], seed=7)]
    assert sorted(halves[0] + halves[1]) == _KEYS
    assert [sorted(h) for h in halves] == [sorted(h) for h in stock]


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_functions_of_whole_partitions_see_those_of_stock_spark(spark: SparkSession, adaptive: str) -> None:
    def sums(batches):  # noqa: ANN001, ANN202 - a local function travels by value
        import pandas as pd

        yield pd.DataFrame({"s": [sum(int(b["k"].sum()) for b in batches)]})

    answers = []
    with joins.settings(spark, _SPLITS, joins.ADAPTIVE[adaptive]):
        joined = spark.table("random_probe").join(F.broadcast(spark.table("random_keys")), "k")
        # The later runs know which files have none of the keys.
        for enabled in (False, True, True):
            with sdf.conf(spark).override(enabled=enabled), tagged(spark) as tag:
                rows = joined.mapInPandas(sums, "s bigint").collect()
            if enabled:
                joins.assert_pruned(joins.Run(spark, tag, rows, 0.0), "k")
            answers.append(sorted(r["s"] for r in rows))
    assert len(answers[0]) > 1
    assert answers[1:] == [answers[0]] * 2


# Adaptive execution makes partitions of this size, as it measures it: with fewer rows there are others.
_BY_SIZE = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "4k",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.shuffle.partitions": "16",
}


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    "query",
    [
        _JOIN.format(columns="k, spark_partition_id() AS r"),
        _JOIN.format(columns="k, rand(5) AS r"),
        f"SELECT k FROM ({_JOIN.format(columns='k')}) TABLESAMPLE (30 PERCENT) REPEATABLE (3)",
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
    groups = (_SPLITS, joins.SHUFFLED, _BY_SIZE, joins.ADAPTIVE[adaptive], joins.FOREVER)
    with joins.settings(spark, *groups), sdf.conf(spark).override(enabled=False):
        expected = sorted(map(tuple, spark.sql(query).collect()))
    with joins.settings(spark, *groups), tagged(spark) as tag:
        assert sorted(map(tuple, spark.sql(query).collect())) == expected
    (report,) = spark.sql(f"SELECT filters, scans FROM dynamic_filter_report('{tag}')").collect()
    if "random_keys z" not in query:
        assert any("depends on the partition of each row" in (f.reason or "") for f in report.filters), report
    assert not any(s.rows_pruned > 0 for s in report.scans), report
    # The same join is filtered where nothing shows.
    fires = joins.in_time("shuffled", adaptive)
    plain = joins.Comparer(spark)(_JOIN.format(columns="k"), *groups, fires=fires)
    if adaptive == "on":
        joins.assert_pruned(plain.on, "k")


@pytest.mark.usefixtures("probe")
def test_groups_come_out_in_the_order_of_stock_spark(spark: SparkSession) -> None:
    # More groups than a map keeps them in: then they are sorted.
    groups = spark.table("random_probe").coalesce(1).groupBy("k").agg(F.collect_list("v").alias("l"))
    frame = groups.join(F.broadcast(spark.table("random_keys").where("k < 1200")), "k")
    answers = []
    for enabled in (False, True):
        with joins.settings(spark, _SPLITS), sdf.conf(spark).override(enabled=enabled), tagged(spark) as tag:
            answers.append(sorted(map(tuple, frame.select("k", F.rand(5)).collect())))
    assert answers[0] == answers[1]
    (report,) = spark.sql(f"SELECT filters FROM dynamic_filter_report('{tag}')").collect()
    assert any("depends on the order of its groups" in (f.reason or "") for f in report.filters), report


_NUMBERED = (
    "FROM (SELECT monotonically_increasing_id() AS n, k, v FROM random_probe) JOIN random_keys USING (k)"
)


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_numbers_that_are_only_compared(spark: SparkSession, strategy: str, adaptive: str) -> None:
    """With rows missing below, rows have other numbers, no two the same: a filter where no more is asked."""
    queries = {
        f"SELECT count(*), max(c) FROM (SELECT n, count(*) AS c {_NUMBERED} GROUP BY n)": True,
        f"SELECT k, count(DISTINCT n) {_NUMBERED} GROUP BY k": False,
        f"SELECT n, k {_NUMBERED}": False,
        f"SELECT n % 2 AS m, count(*) {_NUMBERED} GROUP BY m": False,
        f"SELECT max(n) {_NUMBERED}": False,
        f"SELECT k FROM (SELECT n, k {_NUMBERED}) ORDER BY n LIMIT 3": False,
        # Under the name that the first branch gives it.
        f"SELECT CAST(0 AS BIGINT) AS n, k FROM random_keys UNION ALL SELECT n, k {_NUMBERED}": False,
        f"SELECT a.k FROM (SELECT n, k {_NUMBERED}) a JOIN random_keys b ON a.n = b.k": False,
    }
    with joins.settings(spark, _SPLITS, joins.STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER):
        for query, filtered in queries.items():
            with sdf.conf(spark).override(enabled=False):
                expected = sorted(map(tuple, spark.sql(query).collect()))
            with tagged(spark) as tag:
                assert sorted(map(tuple, spark.sql(query).collect())) == expected, query
            (report,) = spark.sql(f"SELECT filters, scans FROM dynamic_filter_report('{tag}')").collect()
            in_scans = [s for s in report.scans if s.table_name.endswith("probe") and s.rows_pruned > 0]
            if (strategy, adaptive) != ("shuffled", "off") or not filtered:
                assert bool(in_scans) == filtered, (query, report)


@pytest.mark.usefixtures("probe")
def test_numbers_that_are_written_are_those_of_stock_spark(spark: SparkSession, tmp_path: Path) -> None:
    written = []
    for enabled in (False, True):
        with joins.settings(spark, _SPLITS), sdf.conf(spark).override(enabled=enabled):
            spark.sql(f"SELECT n, k {_NUMBERED}").write.parquet(str(tmp_path / f"written-{enabled}"))
        written.append(sorted(map(tuple, spark.read.parquet(str(tmp_path / f"written-{enabled}")).collect())))
    assert written[0] == written[1]


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    "condition",
    [
        "rand(1) < 0.5 AND dynamic_filter('few', k)",
        "dynamic_filter('few', k) AND rand(1) < 0.5",
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

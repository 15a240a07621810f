"""State belongs to an execution, plans to none: they are executed twice, or outside of any execution."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_dynamic_filters import conf
from support import joins

# Plans of a server are out of a client's reach.
pytestmark = pytest.mark.only("classic", "local-cluster")

QUERY = "SELECT p.id, few.n FROM p JOIN few ON p.k = few.j"


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counter:
    folder = tmp_path_factory.mktemp("executions")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build(range(5, joins.KEYS, 50)))
    with conf(spark).override(enabled=False):
        return Counter(spark.sql(QUERY).collect())


def _rows_outside_of_an_execution(df: DataFrame) -> int:
    # Spark numbers what its own methods execute; a plan's RDD it does not.
    return df._jdf.queryExecution().toRdd().count()


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
@pytest.mark.parametrize("outside_first", [True, False])
def test_plan_that_is_executed_again(
    spark: SparkSession, expected: Counter, strategy: str, adaptive: str, outside_first: bool
) -> None:
    with joins.settings(spark, joins.STRATEGIES[strategy], joins.ADAPTIVE[adaptive], joins.FOREVER):
        df = spark.sql(QUERY)
        if outside_first:
            assert _rows_outside_of_an_execution(df) == expected.total()
        assert Counter(df.collect()) == expected
        assert Counter(df.collect()) == expected
        assert _rows_outside_of_an_execution(df) == expected.total()


def test_other_plans_get_their_filter_after_one_was_executed_outside(
    spark: SparkSession, expected: Counter
) -> None:
    with joins.settings(spark, joins.SHUFFLED, joins.FOREVER):
        _rows_outside_of_an_execution(spark.sql(QUERY))
        assert Counter(spark.sql(QUERY).collect()) == expected
        newest = spark.sql("SELECT * FROM dynamic_filters() ORDER BY query_id DESC LIMIT 1").collect()[0]
        assert newest.state == "ready", newest


def test_cached_rows_that_are_computed_again(spark: SparkSession, expected: Counter) -> None:
    # The map stage below the cached rows runs for one execution, and for another once its blocks are gone.
    with joins.settings(spark, joins.SHUFFLED, joins.FOREVER):
        df = spark.sql(QUERY).repartition(3).cache()
        try:
            assert Counter(df.collect()) == expected
            df._jdf.queryExecution().withCachedData()
            assert Counter(df.where("id >= 0").collect()) == expected
        finally:
            df.unpersist(blocking=True)
        assert Counter(df.collect()) == expected

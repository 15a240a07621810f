"""Limits by rank without a partition key, and TopKs over the keys of groups."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from support.checks import Check, assert_rejected, cases
from support.joins import settings


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession, t: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("days") / "data")
    spark.sql(
        "SELECT CAST(seq DIV 40 AS INT) AS day, "
        "IF(seq < 1500 AND seq % 11 = 0, NULL, CAST(seq DIV 90 AS INT)) AS maybe, "
        "concat('k', lpad(seq DIV 50, 4, '0')) AS name, IF(seq < 200, 0.0D, seq DIV 100) AS f, id, grp FROM t"
    ).repartitionByRange(4, "day").write.option("parquet.block.size", 8192).parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("days")


@pytest.mark.core
@pytest.mark.parametrize("rank", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("order", ["id", "c_int DESC NULLS LAST, id", "c_tinyint, id"])
def test_ranks_without_a_partition_key(same_twice: Check, rank: str, order: str) -> None:
    ranked = f"SELECT id, {rank}() OVER (ORDER BY {order}) AS n FROM t"
    result = same_twice(f"SELECT * FROM ({ranked}) WHERE n <= 25")
    assert any(f["generation"] > 0 for f in result.filters), result.analysis


@pytest.mark.exhaustive
def test_ranks_with_a_partition_key(same_twice: Check) -> None:
    ranked = "SELECT id, grp, rank() OVER (PARTITION BY grp ORDER BY id) AS n FROM t"
    result = same_twice(f"SELECT * FROM ({ranked}) WHERE n <= 3", fires=False)
    assert_rejected(result, "a bound for each group")


GROUPS = {
    "last_days": "SELECT day, count(*), max(id) FROM days GROUP BY day ORDER BY day DESC LIMIT 5",
    "offset": "SELECT day, count(*) FROM days GROUP BY day ORDER BY day LIMIT 5 OFFSET 7",
    "distinct_of_two": "SELECT DISTINCT day, grp FROM days ORDER BY day DESC, grp LIMIT 5",
    "two_keys": "SELECT day, grp, count(*) FROM days GROUP BY day, grp ORDER BY day, grp DESC LIMIT 5",
    "text": "SELECT name, min(id), count(*) FROM days GROUP BY name ORDER BY name DESC LIMIT 4",
    "floats": "SELECT f, count(*) FROM days GROUP BY f ORDER BY f LIMIT 4",
    "null_is_a_group": (
        "SELECT maybe, count(*), sum(id) FROM days GROUP BY maybe ORDER BY maybe DESC NULLS FIRST LIMIT 4"
    ),
    "renamed": (
        "SELECT d AS x, c FROM (SELECT day AS d, count(*) AS c FROM days GROUP BY day) ORDER BY x LIMIT 5"
    ),
    "count_distinct": "SELECT day, count(DISTINCT grp), sum(id) FROM days GROUP BY day ORDER BY day LIMIT 5",
    "collected": "SELECT day, sort_array(collect_list(id)) FROM days GROUP BY day ORDER BY day LIMIT 2",
    "union": (
        "SELECT day, count(*) FROM (SELECT day, id FROM days UNION ALL SELECT day + 3, id FROM days "
        "UNION ALL SELECT maybe, id FROM days WHERE maybe IS NOT NULL) GROUP BY day ORDER BY day LIMIT 5"
    ),
}


@pytest.mark.core
@pytest.mark.parametrize("case", cases(GROUPS, ("last_days", "distinct_of_two", "text", "union")))
def test_topk_of_group_keys(same_twice: Check, case: str) -> None:
    same_twice(GROUPS[case], ordered=True)


def test_fewer_groups_than_the_limit(same_twice: Check) -> None:
    query = "SELECT grp, count(*) FROM days GROUP BY grp ORDER BY grp LIMIT 50"
    result = same_twice(query, ordered=True, fires=False)
    assert [f["reason"] for f in result.filters] == ["fewer rows than the limit were seen"]


REJECTED = {
    "aggregate": (
        "SELECT day, count(*) AS c FROM days GROUP BY day ORDER BY c, day LIMIT 5",
        "no statistics",
    ),
    "rollup": (
        "SELECT day, grp, count(*) FROM days GROUP BY ROLLUP (day, grp) ORDER BY day, grp LIMIT 5",
        "",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", REJECTED)
def test_rejected(same_twice: Check, case: str) -> None:
    query, words = REJECTED[case]
    assert_rejected(same_twice(query, ordered=True, fires=False), words)


@pytest.mark.exhaustive
def test_sort_aggregates(spark: SparkSession, same_twice: Check) -> None:
    with settings(spark, {"spark.sql.execution.useHashAggregateExec": "false"}):
        same_twice("SELECT day, max(name) FROM days GROUP BY day ORDER BY day LIMIT 5", ordered=True)

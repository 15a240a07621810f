"""Limits by rank without a partition key, and TopKs over the keys of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.checks import ORDERS, Check, assert_rejected, cases
from support.joins import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession, t: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("days") / "data")
    spark.sql(
        "SELECT CAST(seq DIV 40 AS INT) AS day, "
        "IF(seq < 1500 AND seq % 11 = 0, NULL, CAST(seq DIV 90 AS INT)) AS maybe, "
        "concat('k', lpad(seq DIV 50, 4, '0')) AS name, IF(seq < 200, 0.0D, seq DIV 100) AS f, id, grp FROM t"
    ).repartitionByRange(4, "day").write.option("parquet.block.size", 8192).parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("days")


RANKED = "SELECT id, n FROM (SELECT id, {rank}() OVER (ORDER BY {order}) AS n FROM t) WHERE n <= {limit}"


@pytest.mark.core
@pytest.mark.parametrize("rank", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("order", ["id", "seq DESC", "c_int DESC NULLS LAST, id", "c_tinyint, id"])
def test_ranks_without_a_partition_key(same_twice: Check, rank: str, order: str) -> None:
    result = same_twice(RANKED.format(rank=rank, order=order, limit=25))
    assert any(f["generation"] > 0 for f in result.filters), result.analysis


@pytest.mark.exhaustive
def test_ties_of_a_rank(same_twice: Check) -> None:
    for rank in ("rank", "dense_rank"):
        for limit in (1, 3, 60):
            for order in ORDERS[limit % 2 :: 2]:
                ranked = f"SELECT maybe, {rank}() OVER (ORDER BY maybe {order}) AS n FROM days"
                query = f"SELECT maybe, n, count(*) FROM ({ranked}) WHERE n <= {limit} GROUP BY maybe, n"
                # There are fewer than 60 different values.
                same_twice(query, fires=(rank, limit) != ("dense_rank", 60))


@pytest.mark.exhaustive
def test_ranks_beside_other_window_functions(same_twice: Check) -> None:
    same_twice(
        "SELECT * FROM (SELECT id, rank() OVER w AS n, sum(id) OVER w AS s FROM t "
        "WINDOW w AS (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) WHERE n <= 9"
    )
    # Here every row is needed.
    ranked = "SELECT id, rank() OVER (ORDER BY id) AS n, count(*) OVER () AS c FROM t"
    same_twice(f"SELECT * FROM ({ranked}) WHERE n <= 9", fires=False)


@pytest.mark.exhaustive
def test_ranks_with_a_partition_key(same_twice: Check) -> None:
    query = (
        "SELECT * FROM (SELECT id, grp, {}() OVER (PARTITION BY grp ORDER BY id) AS n FROM t) WHERE n <= 3"
    )
    for rank in ("row_number", "rank", "dense_rank"):
        assert_rejected(same_twice(query.format(rank), fires=False), "a bound for each group")


GROUPS = {
    "first_days": "SELECT day, count(*), sum(id) FROM days GROUP BY day ORDER BY day LIMIT 5",
    "last_days": "SELECT day, count(*), max(id) FROM days GROUP BY day ORDER BY day DESC LIMIT 5",
    "offset": "SELECT day, count(*) FROM days GROUP BY day ORDER BY day LIMIT 5 OFFSET 7",
    "distinct": "SELECT DISTINCT day FROM days ORDER BY day DESC LIMIT 5",
    "distinct_of_two": "SELECT DISTINCT day, grp FROM days ORDER BY day DESC, grp LIMIT 5",
    "two_keys": "SELECT day, grp, count(*) FROM days GROUP BY day, grp ORDER BY day, grp DESC LIMIT 5",
    "text": "SELECT name, min(id), count(*) FROM days GROUP BY name ORDER BY name DESC LIMIT 4",
    "floats": "SELECT f, count(*) FROM days GROUP BY f ORDER BY f LIMIT 4",
    "renamed": (
        "SELECT d AS x, c FROM (SELECT day AS d, count(*) AS c FROM days GROUP BY day) ORDER BY x LIMIT 5"
    ),
    "count_distinct": "SELECT day, count(DISTINCT grp), sum(id) FROM days GROUP BY day ORDER BY day LIMIT 5",
    "where": "SELECT day, count(*) FROM days WHERE grp = 4 GROUP BY day ORDER BY day LIMIT 5",
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ORDERS)
def test_null_is_a_group(same_twice: Check, order: str) -> None:
    for limit in (1, 4):
        query = (
            f"SELECT maybe, count(*), sum(id) FROM days GROUP BY maybe ORDER BY maybe {order} LIMIT {limit}"
        )
        same_twice(query, ordered=True)


def test_fewer_groups_than_the_limit(same_twice: Check) -> None:
    query = "SELECT grp, count(*) FROM days GROUP BY grp ORDER BY grp LIMIT 50"
    result = same_twice(query, ordered=True, fires=False)
    assert [f["reason"] for f in result.filters] == ["fewer rows than the limit were seen"]


REJECTED = {
    "having": (
        "SELECT day, count(*) AS c FROM days GROUP BY day HAVING c > 1 ORDER BY day LIMIT 5",
        "in the way",
    ),
    "aggregate": (
        "SELECT day, count(*) AS c FROM days GROUP BY day ORDER BY c, day LIMIT 5",
        "no statistics",
    ),
    "computed": ("SELECT abs(day) AS d, count(*) FROM days GROUP BY abs(day) ORDER BY d LIMIT 5", ""),
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
def test_groups_without_order(same_twice: Check) -> None:
    query = "SELECT c FROM (SELECT day, count(*) AS c FROM days WHERE day < 90 GROUP BY day LIMIT 5)"
    result = same_twice(query, fires=False)
    assert {row["c"] for row in result.on} == {40}
    assert not result.scans


def test_an_exchange_used_twice(same_twice: Check) -> None:
    same_twice(
        "WITH g AS (SELECT day, count(*) AS c FROM days GROUP BY day) "
        "SELECT a.day, a.c, b.c AS d FROM (SELECT * FROM g ORDER BY day LIMIT 5) a JOIN g b ON a.day = b.day"
    )


@pytest.mark.exhaustive
@pytest.mark.usefixtures("planner_mode")
def test_planner_modes(same_twice: Check) -> None:
    same_twice(GROUPS["last_days"], ordered=True)
    same_twice(GROUPS["text"], ordered=True)
    same_twice(RANKED.format(rank="rank", order="id", limit=10))


@pytest.mark.exhaustive
def test_sort_aggregates(spark: SparkSession, same_twice: Check) -> None:
    with settings(spark, {"spark.sql.execution.useHashAggregateExec": "false"}):
        query = "SELECT day, max(name) FROM days GROUP BY day ORDER BY day LIMIT 5"
        same_twice(query, ordered=True)

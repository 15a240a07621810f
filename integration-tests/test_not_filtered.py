"""Where there must be no filter: the rows are Spark's own, and the report says why."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from support.checks import Check, assert_rejected
from support.joins import ADAPTIVE, SHUFFLED, settings

pytestmark = pytest.mark.exhaustive

# Queries whose rows are the same in each run, and words of the reason.
REJECTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "window": (
        "SELECT id, row_number() OVER (PARTITION BY grp ORDER BY id) AS n FROM t ORDER BY id LIMIT 5",
        ("in the way",),
    ),
    "limit_below": ("SELECT * FROM (SELECT * FROM t LIMIT 4000) ORDER BY id LIMIT 5", ("in the way",)),
    "key_of_the_build_side": (
        "SELECT /*+ BROADCAST(d) */ * FROM t JOIN d ON t.grp = d.grp ORDER BY d.label, t.id LIMIT 5",
        ("build side",),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, t: str) -> None:
    spark.range(10).selectExpr(
        "CAST(id AS INT) AS grp", "concat('label ', id) AS label"
    ).createOrReplaceTempView("d")


@pytest.mark.core
@pytest.mark.parametrize("case", REJECTED)
def test_rejected(assert_same_result: Check, case: str) -> None:
    query, words = REJECTED[case]
    assert_rejected(assert_same_result(query, ordered=True, fires=False), *words)


def test_topk_above_a_topk(assert_same_result: Check) -> None:
    # Fewer rows into the lower TopK would change its rows: only its own filter may go into the scan.
    query = "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 50) ORDER BY c_int, id LIMIT 5"
    result = assert_same_result(query, ordered=True)
    by_column = {f["columns"][0]: f for f in result.filters}
    assert by_column["id"]["generation"] > 0
    assert by_column["c_int"]["state"] == "disabled"
    assert "limit is in the way" in by_column["c_int"]["reason"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("total", "repeats"), [("c_double", False), ("CAST(c_double AS DECIMAL(20, 4))", True)]
)
def test_build_side_that_is_decided_by_a_sum(
    spark: SparkSession, assert_same_result: Check, total: str, repeats: bool
) -> None:
    # A sum of floating-point numbers depends on the order of its rows. A task that is retried may find that
    # another group is above the limit, whose key would be missing in the filter.
    groups = f"SELECT grp AS g FROM t WHERE grp < 3 GROUP BY grp HAVING sum({total}) IS NOT NULL"
    with settings(spark, SHUFFLED):
        result = assert_same_result(f"SELECT t.id FROM t JOIN ({groups}) ON t.grp = g", fires=repeats)
    if not repeats:
        assert_rejected(result, "the build side", "the order of its rows", producer="join")


@pytest.mark.parametrize("adaptive", ADAPTIVE)
def test_build_key_with_a_subquery(spark: SparkSession, assert_same_result: Check, adaptive: str) -> None:
    # The result of a subquery is given to the operators that Spark knows, and not to the keys of a tap.
    query = "SELECT t.id, label FROM t JOIN d ON t.grp = d.grp - (SELECT max(grp) - 4 FROM d)"
    with settings(spark, ADAPTIVE[adaptive], SHUFFLED):
        result = assert_same_result(query, fires=False)
    if adaptive == "on":
        assert_rejected(result, "subquery", producer="join")


def test_asof_join(spark: SparkSession, assert_same_result: Check) -> None:
    # A shuffled join from Spark 4.3 on. With rows of the right side gone, another one is the nearest.
    switch = "spark.sql.join.sortMergeAsOfJoin.enabled"
    if not hasattr(spark.table("t"), "_joinAsOf") or spark.version < "4.3":
        pytest.skip("no as-of join that is shuffled")
    left = spark.table("t").selectExpr("seq AS at", "grp AS g")
    right = spark.table("t").where("id % 2 = 0").selectExpr("seq AS other", "grp AS h", "id AS v")
    with settings(spark, {switch: "true"}, SHUFFLED):
        nearest = left._joinAsOf(right, "at", "other", on=left["g"] == right["h"], how="inner")
        few = spark.table("t").where("c_int % 9 = 2").selectExpr("id AS j")
        joined = nearest.join(few, nearest["v"] == few["j"]).select("at", "other", "v")
        result = assert_same_result(joined, fires=False)
    assert "AsOf" in result.plan
    assert any("as-of" in reason for reason in result.reasons()), result.analysis

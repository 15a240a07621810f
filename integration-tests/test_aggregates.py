"""Min and max without grouping: which of them filter their scans, and that the answers stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_dynamic_filters import analyze, filters
from support import joins, tables
from support.checks import Check, assert_rejected, assert_row_groups_pruned, cases
from support.joins import settings


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession, t: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("aggregates")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build(joins.within_row_group(3)))
    parts = spark.sql("SELECT id, seq, grp AS part FROM t").coalesce(1)
    parts.write.partitionBy("part").parquet(str(folder / "parts"))
    spark.read.parquet(str(folder / "parts")).createOrReplaceTempView("parts")


FILTERED = {
    "max": "SELECT max(seq) FROM t",
    "both_ends": "SELECT min(id), max(id) FROM t",
    "two_columns": "SELECT min(id), max(c_int) FROM t",
    "where_other_column": "SELECT max(id), min(id) FROM t WHERE c_string LIKE '%1%'",
    "expression_of_aggregates": "SELECT max(id) - min(id) + 1 FROM t",
    "union_both_ends": "SELECT min(x), max(x) FROM (SELECT id AS x FROM t UNION ALL SELECT seq FROM t)",
    "max_by_and_max": "SELECT max_by(c_string, id), max(id) FROM t WHERE grp < 7",
    "scalar_subquery": "SELECT count(*) FROM t WHERE id < (SELECT max(seq) FROM t WHERE grp = 2)",
    "partition_column_and_another": "SELECT min(part), max(id) FROM parts",
    "broadcast_join_below": (
        "SELECT /*+ BROADCAST(few) */ min(p.id), max(p.id) FROM p JOIN few ON p.k = few.j"
    ),
}


@pytest.mark.core
@pytest.mark.parametrize("case", cases(FILTERED, ("max", "both_ends", "two_columns", "max_by_and_max")))
def test_filtered(same_twice: Check, case: str) -> None:
    result = same_twice(FILTERED[case])
    mine = [f for f in result.filters if f["producer"] == "aggregate"]
    assert any(f["generation"] > 0 and f["state"] == "ready" for f in mine), result.analysis


def test_only_the_row_groups_with_the_ends_are_read(same_twice: Check) -> None:
    result = same_twice("SELECT min(seq), max(seq) FROM t")
    assert_row_groups_pruned(result)
    plan = result.plan
    assert "AggregateFilter" in plan
    assert " OR DynamicFilter#" in plan
    filters = {f["expression"] for f in result.filters}
    assert filters == {"seq <= 0", f"seq >= {tables.ROWS - 1}"}


@pytest.mark.exhaustive
def test_nulls_and_no_rows(spark: SparkSession, tmp_path: Path, same_twice: Check) -> None:
    table = tables.all_types(nulls=1.0).select(["id", "seq", "c_int", "c_string"])
    spark.read.parquet(str(tables.write(table, tmp_path / "nulls"))).createOrReplaceTempView("nulls")
    for query in (
        "SELECT min(c_int), max(c_int) FROM nulls",
        "SELECT min_by(id, c_int) FROM nulls WHERE seq < 0",
    ):
        same_twice(query, fires=False)
    # A NULL matters as little as any other value, once there is one.
    few = spark.sql("SELECT IF(id % 900 = 5, id, NULL) AS x, * FROM t")
    few.write.option("parquet.block.size", 16_384).parquet(str(tmp_path / "few"))
    spark.read.parquet(str(tmp_path / "few")).createOrReplaceTempView("few_values")
    same_twice("SELECT min(x), max(x) FROM few_values")


REJECTED = {
    "count": ("SELECT min(id), count(*) FROM t", ("count needs every row",)),
    "computed": ("SELECT min(id % 7) FROM t", ("computed",)),
    "groups": ("SELECT grp, min(id) FROM t GROUP BY grp", ("each group",)),
    "filter_clause": ("SELECT min(id) FILTER (WHERE grp = 3) FROM t", ("FILTER clause",)),
    "group_below": ("SELECT max(n) FROM (SELECT grp, count(*) AS n FROM t GROUP BY grp)", ("no statistics",)),
    "many_columns": (
        "SELECT "
        + ", ".join(f"min({c}), max({c})" for c in ("id", "seq", "grp", "c_int", "c_date"))
        + " FROM t",
        ("more than 8",),
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", REJECTED)
def test_rejected(same_twice: Check, case: str) -> None:
    query, words = REJECTED[case]
    assert_rejected(same_twice(query, fires=False), *words, producer="aggregate")


def test_topk_and_aggregate_of_the_same_table(same_twice: Check) -> None:
    same_twice("SELECT (SELECT min(seq) FROM t), id FROM t ORDER BY id DESC LIMIT 5", ordered=True)
    same_twice("SELECT (SELECT min(seq) FROM t), (SELECT max(seq) FROM t), (SELECT min(seq) FROM t)")


def test_the_switch(spark: SparkSession) -> None:
    with settings(spark, {"spark.dynamicFilters.aggregate.enabled": "false"}):
        analysis = analyze(spark.sql("SELECT min(id) FROM t"))
        assert not analysis.filters
        assert "AggregateFilter" not in analysis.plan


def test_hints(same_twice: Check) -> None:
    result = same_twice("SELECT /*+ NO_DYNAMIC_FILTER(t) */ min(id), max(seq) FROM t", fires=False)
    assert_rejected(result, "the hint NO_DYNAMIC_FILTER", producer="aggregate")
    calls = ", ".join(f"min({c}), max({c})" for c in ("id", "seq", "grp", "c_int", "c_date"))
    same_twice(f"SELECT /*+ DYNAMIC_FILTER */ {calls} FROM t")


# Not in Connect, where each run of a DataFrame is planned by itself.
@pytest.mark.exhaustive
def test_a_dataframe_that_runs_again_says_that_its_input_is_not_read(spark: SparkSession) -> None:
    """Spark keeps shuffle files, so that no task sees a row of the second run."""
    frame = spark.sql("SELECT max(seq) AS again FROM t")
    seen = []
    for _ in range(2):
        rows = frame.collect()
        newest = max(filters(spark).collect(), key=lambda row: row["query_id"])
        seen.append((rows, newest["producer"], newest["state"], newest["reason"]))
    first, again = seen
    assert first[1:] == ("aggregate", "ready", None)
    assert again == (first[0], "aggregate", "registered", "the input was not read in this query")

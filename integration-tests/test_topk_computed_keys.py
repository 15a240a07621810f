"""TopKs whose sort key is computed from a column, by a monotone function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import assert_same_result
from support import joins, tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Times of `t`: an hour for each id.
KEYS = {
    "to_date": "to_date(ts)",
    "date_trunc": "date_trunc('WEEK', ts)",
    "date_of_ntz": "to_date(ntz)",
    "year": "year(ts)",
    "div": "id DIV 100",
    "plus": "i + 5",
    "times": "id * 3 - 2",
    "double": "CAST(i AS DOUBLE)",
    "negated": "-id",
    "coalesce": "coalesce(i, 19990)",
    "coalesce_first": "coalesce(i, -1) + 1",
    "negated_year": "2000 - year(ts)",
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("computed")
    tables.hours(spark, 20_000).write.option("parquet.block.size", 8_192).parquet(str(folder / "t"))
    spark.read.parquet(str(folder / "t")).createOrReplaceTempView("t")


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("order", ["", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"])
@pytest.mark.parametrize("key", KEYS)
def test_ordered_by_a_computed_key(spark: SparkSession, key: str, order: str, adaptive: str) -> None:
    """Rows that are equal by the key are ordered by `id`. Fails if a scan drops rows with the bound's key."""
    query = f"SELECT id, payload FROM t ORDER BY {KEYS[key]} {order}, id % 97, id LIMIT 7"
    with joins.settings(spark, joins.ADAPTIVE[adaptive], {"spark.sql.ansi.enabled": "true"}):
        # NULLs come first: each row group has some.
        nulls = KEYS[key] in ("i + 5", "CAST(i AS DOUBLE)") and order in ("", "DESC NULLS FIRST")
        nulls |= key == "coalesce_first" and order in ("", "ASC NULLS LAST")
        assert_same_result(spark, query, ordered=True, fires=None if nulls else True)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT to_date(ts) AS d, payload FROM t ORDER BY d DESC LIMIT 20", ["d"]),
        (
            "SELECT d, count(*) FROM (SELECT to_date(ts) AS d FROM t) GROUP BY d ORDER BY d DESC LIMIT 3",
            None,
        ),
        ("SELECT * FROM (SELECT id, rank() OVER (ORDER BY id DIV 10 DESC) AS r FROM t) WHERE r <= 12", None),
    ],
    ids=["alias", "groups", "rank"],
)
def test_a_key_that_is_computed_below(spark: SparkSession, query: str, keys: list[str] | None) -> None:
    """Fails if only a sort order itself may be computed, not a column of a projection below."""
    assert_same_result(spark, query, keys=keys)


@pytest.mark.parametrize(
    "extremes",
    ["max(to_date(ts))", "min(id + 5), max(id + 5)", "max(-id)", "max_by(payload, coalesce(i, 0))"],
)
def test_extremes_of_a_computed_key(spark: SparkSession, extremes: str) -> None:
    """Without a column for the key below the aggregate: "the aggregated column is computed"."""
    assert_same_result(spark, f"SELECT {extremes} FROM t")
    assert_same_result(spark, f"SELECT {extremes} FROM (SELECT * FROM t WHERE id % 3 = 0)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT * FROM one ORDER BY to_date(ts) DESC LIMIT 1) s JOIN t ON s.k = t.id",
        "SELECT id FROM t WHERE ts > (SELECT ts FROM few ORDER BY to_date(ts) LIMIT 1)",
        "SELECT ts FROM few ORDER BY to_date(ts) LIMIT 9",
    ],
    ids=["join", "subquery", "all rows"],
)
def test_over_cached_tables(spark: SparkSession, query: str) -> None:
    """Fails if adaptive execution takes the projection that computes the key for the cached table: the result
    then has one more column."""
    cached = {
        "one": "SELECT 1L AS k, ts, payload AS p FROM t WHERE id = 7",
        "few": "SELECT /*+ COALESCE(1) */ ts, id FROM t WHERE id % 4000 = 7",
    }
    for name, of in cached.items():
        spark.sql(of).createOrReplaceTempView(name)
        spark.sql(f"CACHE TABLE {name}")
    try:
        assert_same_result(spark, query, fires=None)
    finally:
        for name in cached:
            spark.sql(f"UNCACHE TABLE {name}")


def test_the_key_of_a_single_row_is_not_computed(spark: SparkSession) -> None:
    """Fails if the tap computes a key that Spark computes only to compare two rows: here it overflows."""
    query = "SELECT id FROM t WHERE id = 7 ORDER BY (id + 1000000000000) * 1000000000 LIMIT 5"
    with joins.settings(spark, {"spark.sql.ansi.enabled": "true"}):
        assert_same_result(spark, query, fires=None)


def test_files_and_row_groups_are_read_best_first(spark: SparkSession) -> None:
    """The table is in ascending order. Fails if row groups keep that order: none could be skipped then."""
    for order in ("to_date(ts) DESC", "-id"):
        analysis = sdf.analyze(spark.sql(f"SELECT * FROM t ORDER BY {order} LIMIT 5"))
        scan = analysis.scans[0]
        assert scan.row_groups_pruned > scan.row_groups_total / 2, analysis


def test_a_key_that_is_not_monotone_has_a_reason(spark: SparkSession) -> None:
    reasons = sdf.analyze(spark.sql("SELECT * FROM t ORDER BY abs(id) LIMIT 5")).filters
    assert [f.reason for f in reasons] == ["the sort key is computed: abs(t.id)"]

"""TopKs, extremes and joins whose key is computed from a column, by a monotone function.

`MonotoneExpressionsSuite` compares the filters of columns with Spark's own evaluation of the functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import assert_same_result
from support import joins, tables
from support.checks import ORDERS
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tables: p with an hour for each id, and b with one key in each column."""
    folder: Path = tmp_path_factory.mktemp("computed")
    rows = tables.hours(spark, 20_000).selectExpr(
        "*", "to_date(ts) AS d", "CAST(id AS DECIMAL(9, 2)) AS money"
    )
    rows.write.option("parquet.block.size", 8_192).parquet(str(folder / "p"))
    one = spark.sql(
        "SELECT DATE'2020-03-01' AS day, TIMESTAMP'2020-03-01 00:00:00' AS midnight, "
        "17L AS hundred, 173L AS ten, 1735L AS id, 1735.0D AS x, 1735.00BD AS dec, CAST(1736 AS INT) AS n"
    )
    one.write.parquet(str(folder / "b"))
    for name in ("p", "b"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


SORT_KEYS = {
    "to_date": "to_date(ts)",
    "date_trunc": "date_trunc('WEEK', ts)",
    "date_of_ntz": "to_date(ntz)",
    "div": "id DIV 100",
    "plus": "i + 5",
    "double": "CAST(i AS DOUBLE)",
    "negated": "-id",
    "coalesce_first": "coalesce(i, -1) + 1",
    "negated_year": "2000 - year(ts)",
}


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("key", SORT_KEYS)
def test_ordered_by_a_computed_key(spark: SparkSession, key: str, order: str, adaptive: str) -> None:
    """Rows that are equal by the key are ordered by `id`. Fails if a scan drops rows with the bound's key."""
    query = f"SELECT id, payload FROM p ORDER BY {SORT_KEYS[key]} {order}, id % 97, id LIMIT 7"
    with joins.settings(spark, joins.ADAPTIVE[adaptive], {"spark.sql.ansi.enabled": "true"}):
        # NULLs come first: each row group has some.
        nulls = key in ("plus", "double") and order.endswith("NULLS FIRST")
        nulls |= key == "coalesce_first" and order.startswith("ASC")
        assert_same_result(spark, query, ordered=True, fires=None if nulls else True)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT to_date(ts) AS d, payload FROM p ORDER BY d DESC LIMIT 20", ["d"]),
        (
            "SELECT d, count(*) FROM (SELECT to_date(ts) AS d FROM p) GROUP BY d ORDER BY d DESC LIMIT 3",
            None,
        ),
        ("SELECT * FROM (SELECT id, rank() OVER (ORDER BY id DIV 10 DESC) AS r FROM p) WHERE r <= 12", None),
        # Without a column for the key below the aggregate: "the aggregated column is computed".
        ("SELECT min(id + 5), max(id + 5) FROM p", None),
        ("SELECT max_by(payload, coalesce(i, 0)) FROM (SELECT * FROM p WHERE id % 3 = 0)", None),
    ],
    ids=["alias", "groups", "rank", "extremes", "max_by"],
)
def test_a_key_that_is_computed_below(spark: SparkSession, query: str, keys: list[str] | None) -> None:
    """Fails if only a sort order itself may be computed, not a column of a projection below."""
    assert_same_result(spark, query, keys=keys)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT * FROM one ORDER BY to_date(ts) DESC LIMIT 1) s JOIN p ON s.k = p.id",
        "SELECT id FROM p WHERE ts > (SELECT ts FROM few ORDER BY to_date(ts) LIMIT 1)",
    ],
    ids=["join", "subquery"],
)
def test_over_cached_tables(spark: SparkSession, query: str) -> None:
    """Fails if adaptive execution takes the projection that computes the key for the cached table: the result
    then has one more column."""
    cached = {
        "one": "SELECT 1L AS k, ts, payload AS q FROM p WHERE id = 7",
        "few": "SELECT /*+ COALESCE(1) */ ts, id FROM p WHERE id % 4000 = 7",
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
    query = "SELECT id FROM p WHERE id = 7 ORDER BY (id + 1000000000000) * 1000000000 LIMIT 5"
    with joins.settings(spark, {"spark.sql.ansi.enabled": "true"}):
        assert_same_result(spark, query, fires=None)


def test_files_and_row_groups_are_read_best_first(spark: SparkSession) -> None:
    """The table is in ascending order. Fails if row groups keep that order: none could be skipped then."""
    for order in ("to_date(ts) DESC", "-id"):
        analysis = sdf.analyze(spark.sql(f"SELECT * FROM p ORDER BY {order} LIMIT 5"))
        scan = analysis.scans[0]
        assert scan.row_groups_pruned > scan.row_groups_total / 2, analysis


JOIN_KEYS = {
    "to_date": "to_date(p.ts) = b.day",
    "date_trunc": "date_trunc('DAY', p.ts) = b.midnight",
    "date_as_timestamp": "p.d = b.midnight",
    "div": "p.id DIV 100 = b.hundred",
    "plus": "p.id + 1 = b.id",
    "int_and_double": "p.i = b.x",
    "bigint_and_decimal": "p.id = b.dec",
    "decimals": "p.money = b.dec",
    "null_safe": "p.i + 1 <=> b.n",
    "two_keys": "p.id DIV 100 = b.hundred AND p.id DIV 10 = b.ten",
    "coalesce": "coalesce(p.i, 17) = b.hundred",
    "both_computed": "p.id DIV 100 = b.id DIV 100",
}


@pytest.mark.core
@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("key", JOIN_KEYS)
def test_joined_by_a_computed_key(compare: Comparer, key: str, strategy: str, zone: str) -> None:
    """Without MonotoneExpressions no filter fires: "the join key is computed"."""
    zoned = {"spark.sql.session.timeZone": zone}
    compare(f"SELECT p.*, b.n FROM p JOIN b ON {JOIN_KEYS[key]}", STRATEGIES[strategy], zoned)


#: Tables with columns that are computed below the join, and conditions.
BELOW = {
    # Two computations, one of the result of the other.
    "view": ("(SELECT *, date_trunc('HOUR', ts) AS hour FROM p)", "to_date(v.hour) = b.day"),
    "cast_by_a_union": (
        "(SELECT i AS k, payload FROM p UNION ALL SELECT id, payload FROM p)",
        "v.k = b.id",
    ),
    "join": ("(SELECT x.*, y.i AS j FROM p x JOIN p y ON x.id = y.id)", "v.id DIV 100 = b.hundred"),
}


@pytest.mark.parametrize("below", BELOW)
def test_columns_computed_below_a_join(compare: Comparer, below: str) -> None:
    table, condition = BELOW[below]
    compare(f"SELECT v.*, b.n FROM {table} v JOIN b ON {condition}", STRATEGIES["shuffled"])


def test_arithmetic_that_wraps_is_not_inverted(compare: Comparer) -> None:
    """Without ANSI mode the sum of the greatest number and 1 is the least number."""
    wraps = {"spark.sql.ansi.enabled": "false"}
    compare(f"SELECT p.id FROM p JOIN b ON {JOIN_KEYS['plus']}", STRATEGIES["shuffled"], wraps, fires=False)

"""Joins whose key is computed from a column of the large table, by a function that never falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import joins, tables
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Times of `p`: an hour for each id, so 4,000 rows are 167 days. `b` has one key in each column.
KEYS = {
    "to_date": "to_date(p.ts) = b.day",
    "date_trunc": "date_trunc('DAY', p.ts) = b.midnight",
    "date_of_ntz": "to_date(p.ntz) = b.day",
    "month": "trunc(p.d, 'MM') = b.month",
    "date_as_timestamp": "p.d = b.midnight",
    "div": "p.id DIV 100 = b.hundred",
    "plus": "p.id + 1 = b.id",
    "times": "p.id * 3 - 2 = b.id",
    "int_and_double": "p.i = b.x",
    "bigint_and_decimal": "p.id = b.dec",
    "decimals": "p.money = b.dec",
    "null_safe": "p.i + 1 <=> b.n",
    "two_keys": "p.id DIV 100 = b.hundred AND p.id DIV 10 = b.ten",
    "coalesce": "coalesce(p.i, 17) = b.hundred",
    "both_computed": "p.id DIV 100 = b.id DIV 100",
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("computed")
    rows = tables.hours(spark, 4_000).selectExpr(
        "*", "to_date(ts) AS d", "CAST(id AS DECIMAL(9, 2)) AS money"
    )
    rows.write.option("parquet.block.size", 4_096).parquet(str(folder / "p"))
    spark.read.parquet(str(folder / "p")).createOrReplaceTempView("p")
    one = spark.sql(
        "SELECT DATE'2020-03-01' AS day, TIMESTAMP'2020-03-01 00:00:00' AS midnight, "
        "DATE'2020-03-01' AS month, 17L AS hundred, 173L AS ten, 1735L AS id, 1735.0D AS x, "
        "1735.00BD AS dec, CAST(1736 AS INT) AS n"
    )
    one.write.parquet(str(folder / "b"))
    spark.read.parquet(str(folder / "b")).createOrReplaceTempView("b")


@pytest.fixture
def compare(spark: SparkSession) -> Comparer:
    return Comparer(spark)


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("key", KEYS)
def test_keys(compare: Comparer, key: str, strategy: str) -> None:
    """Without MonotoneExpressions no filter fires: "the join key is computed"."""
    compare(f"SELECT p.*, b.n FROM p JOIN b ON {KEYS[key]}", STRATEGIES[strategy])


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"])
def test_zones(compare: Comparer, zone: str) -> None:
    zoned = {"spark.sql.session.timeZone": zone}
    for key in ("to_date", "date_trunc", "date_as_timestamp"):
        compare(f"SELECT p.*, b.n FROM p JOIN b ON {KEYS[key]}", STRATEGIES["shuffled"], zoned)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_columns_computed_below(compare: Comparer, strategy: str) -> None:
    """A view has the computed column, and a union casts the column of one branch."""
    day = "(SELECT *, to_date(ts) AS day FROM p WHERE id % 3 < 2)"
    compare(f"SELECT v.*, b.n FROM {day} v JOIN b ON v.day = b.day", STRATEGIES[strategy])
    # Two computations, one of the result of the other.
    hour = "(SELECT *, date_trunc('HOUR', ts) AS hour FROM p WHERE id % 3 < 2)"
    compare(f"SELECT v.*, b.n FROM {hour} v JOIN b ON to_date(v.hour) = b.day", STRATEGIES[strategy])
    both = "(SELECT i AS k, payload FROM p UNION ALL SELECT id, payload FROM p)"
    compare(f"SELECT u.* FROM {both} u JOIN b ON u.k = b.id", STRATEGIES[strategy])
    nested = "(SELECT *, year(day) AS y FROM (SELECT *, date_add(d, 0) AS x, to_date(ts) AS day FROM p))"
    compare(f"SELECT v.id FROM {nested} v JOIN b ON v.y = year(b.day)", STRATEGIES[strategy], fires=None)


def test_join_kinds(compare: Comparer) -> None:
    for kind in ("LEFT SEMI", "RIGHT OUTER", "LEFT OUTER", "LEFT ANTI", "FULL OUTER"):
        fires = True if kind in ("LEFT SEMI", "RIGHT OUTER") else None
        compare(
            f"SELECT * FROM p {kind} JOIN b ON to_date(p.ts) = b.day", STRATEGIES["shuffled"], fires=fires
        )


def test_below_other_joins_and_groups(compare: Comparer) -> None:
    groups = "(SELECT to_date(ts) AS day, count(*) AS c FROM p GROUP BY to_date(ts))"
    compare(f"SELECT g.* FROM {groups} g JOIN b ON g.day = b.day", STRATEGIES["shuffled"], fires=None)
    pair = "(SELECT x.*, y.i AS j FROM p x JOIN p y ON x.id = y.id)"
    compare(f"SELECT v.* FROM {pair} v JOIN b ON v.id DIV 100 = b.hundred", STRATEGIES["shuffled"])


def test_other_sources(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    for form in ("orc", "json"):
        path = str(tmp_path / form)
        spark.table("p").drop("ntz").write.format(form).save(path)
        spark.read.schema("id BIGINT, payload STRING").format(form).load(path).createOrReplaceTempView(
            f"p_{form}"
        )
        compare(f"SELECT p.* FROM p_{form} p JOIN b ON {KEYS['div']}", STRATEGIES["shuffled"], fires=None)
    spark.table("p").repartition(4, "id").sortWithinPartitions("id").cache().createOrReplaceTempView(
        "p_cached"
    )
    compare(f"SELECT p.* FROM p_cached p JOIN b ON {KEYS['to_date']}", STRATEGIES["broadcast"], fires=None)


def test_arithmetic_that_wraps_is_not_inverted(compare: Comparer) -> None:
    """Without ANSI mode the sum of the greatest number and 1 is the least number."""
    wraps = {"spark.sql.ansi.enabled": "false"}
    compare(f"SELECT p.id FROM p JOIN b ON {KEYS['plus']}", STRATEGIES["shuffled"], wraps, fires=False)


def test_text_in_plans(compare: Comparer) -> None:
    run = compare(f"SELECT p.* FROM p JOIN b ON {KEYS['div']}", joins.BROADCAST)
    assert "[(p.id div ?): (p.id div ?) = 17]" in run.on.plan, run.on.plan

"""Joins without equal keys, whose condition compares the large table with ranges of the small one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import Comparer

CONDITIONS = {
    "between": "p.id BETWEEN r.lo AND r.hi",
    "half_open": "p.id >= r.lo AND r.hi > p.id",
    "greater": "p.id > r.high",
    "less_or_equal": "p.i <= r.low",
    "times": "p.ts >= r.since AND p.ts < r.until",
    "days": "to_date(p.ts) BETWEEN r.day AND r.day",
    "computed_ends": "p.id BETWEEN r.lo - 5 AND r.lo + 5",
    "doubles": "CAST(p.id AS DOUBLE) BETWEEN r.lo + 0.5D AND r.hi - 0.5D",
    "more": "p.id BETWEEN r.lo AND r.hi AND (p.i % 2 = 0 OR r.lo > 3000)",
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("ranges")
    tables.hours(spark, 4_000).write.option("parquet.block.size", 4_096).parquet(str(folder / "p"))
    spark.read.parquet(str(folder / "p")).createOrReplaceTempView("p")
    hour = "timestamp_seconds(1577836800 + {} * 3600)"
    spark.sql(
        f"SELECT lo, hi, 3900L AS high, 90L AS low, {hour.format('lo')} AS since, "
        f"{hour.format('hi')} AS until, to_date({hour.format('lo')}) AS day "
        "FROM VALUES (100L, 130L), (120L, 150L), (3000L, 3000L), (2000L, 1000L), (NULL, 500L), "
        "(700L, NULL) AS r(lo, hi)"
    ).coalesce(1).write.parquet(str(folder / "r"))
    spark.read.parquet(str(folder / "r")).createOrReplaceTempView("r")


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(compare: Comparer, condition: str, adaptive: str) -> None:
    """Without `JoinKeys.ranges`: "the join has no equal keys"."""
    query = f"SELECT p.*, r.lo, r.hi FROM p JOIN r ON {CONDITIONS[condition]}"
    compare(query, joins.BROADCAST, joins.ADAPTIVE[adaptive])


@pytest.mark.parametrize(
    ("kind", "fires"),
    [
        ("LEFT SEMI", True),
        ("RIGHT OUTER", True),
        ("LEFT OUTER", False),
        ("LEFT ANTI", False),
    ],
)
def test_join_kinds(compare: Comparer, kind: str, fires: bool) -> None:
    """Fails if a side of which the join needs every row is filtered."""
    compare(
        f"SELECT /*+ BROADCAST(r) */ * FROM p {kind} JOIN r ON {CONDITIONS['between']}",
        joins.BROADCAST,
        fires=fires,
    )


def test_gaps_between_intervals_are_left_out(compare: Comparer) -> None:
    """Fails if only the least and the greatest end are kept: row groups from 151 to 2,999 are read then."""
    run = compare(f"SELECT p.id FROM p JOIN r ON {CONDITIONS['between']}", joins.BROADCAST)
    assert "id IN (2 intervals)" in run.on.plan, run.on.plan
    scan = next(s for s in run.on.analysis.scans if s["row_groups_total"] > 1)
    assert scan["row_groups_total"] - scan["row_groups_pruned"] <= 4, scan


def test_many_intervals_give_their_hull(compare: Comparer) -> None:
    few = {"spark.dynamicFilters.in.maxValues": "1"}
    run = compare(f"SELECT p.id FROM p JOIN r ON {CONDITIONS['between']}", joins.BROADCAST, few)
    assert "100 <= id <= 3000" in run.on.plan, run.on.plan


def test_no_interval_passes_no_row(compare: Comparer) -> None:
    """Only NULLs and ranges that end before they begin."""
    none = "(SELECT * FROM r WHERE lo > hi OR lo IS NULL OR hi IS NULL)"
    compare(f"SELECT p.id FROM p JOIN {none} r ON {CONDITIONS['between']}", joins.BROADCAST)


@pytest.mark.parametrize("condition", ["p.payload > string(r.lo)", "p.id + r.lo < 5"])
def test_what_is_not_filtered(compare: Comparer, condition: str) -> None:
    run = compare(f"SELECT p.id FROM p JOIN r ON {condition}", joins.BROADCAST, fires=False)
    assert [f["reason"] for f in run.on.analysis.filters] == ["the join has no equal keys"]


def test_below_other_operators(compare: Comparer) -> None:
    """The ranges' filter goes below another join and below groups, whose rows are shuffled."""
    pair = "(SELECT x.*, y.payload AS other FROM p x JOIN p y ON x.id = y.id)"
    groups = "(SELECT id, count(*) AS c FROM p GROUP BY id)"
    for below in (pair, groups):
        query = f"SELECT /*+ BROADCAST(r) */ v.* FROM {below} v JOIN r ON v.id BETWEEN r.lo AND r.hi"
        compare(query, joins.SHUFFLED)

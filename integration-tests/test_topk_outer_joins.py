"""A TopK over an outer join by columns of the preserved side: it is repeated below the join."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support import joins
from support.checks import Check
from support.joins import BROADCAST, SHUFFLED, Comparer, settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


# Rows are unique by their sort keys, so that both runs have the same ones.
REPEATED = {
    "left": "SELECT * FROM p LEFT JOIN b ON p.k = b.j ORDER BY id DESC LIMIT 5",
    "right": "SELECT id AS i, upper(p.s) AS u, n FROM b RIGHT JOIN p ON p.k = b.j ORDER BY i LIMIT 7",
    "key_not_in_the_result": "SELECT p.s, b.n FROM p LEFT JOIN b ON p.k = b.j ORDER BY p.id DESC LIMIT 5",
    "offset": "SELECT * FROM p LEFT JOIN b ON p.k = b.j ORDER BY id DESC LIMIT 5 OFFSET 3",
    "two_keys": "SELECT * FROM p LEFT JOIN b ON p.k = b.j ORDER BY k DESC NULLS LAST, id LIMIT 9",
    "join_of_a_join": (
        "SELECT p.*, x.n, y.w FROM p LEFT JOIN b x ON p.k = x.j LEFT JOIN b y ON p.id = y.j "
        "ORDER BY p.id DESC LIMIT 5"
    ),
    "scalar_subquery": (
        "SELECT id, (SELECT max(n) FROM b WHERE b.j = p.k) AS m FROM p ORDER BY id DESC LIMIT 5"
    ),
    "below_a_join": (
        "SELECT a.id, c.id AS other FROM "
        "(SELECT id, n FROM p LEFT JOIN b ON p.k = b.j ORDER BY id LIMIT 5) a JOIN p c ON a.id = c.id"
    ),
}
# Left as they are: some sort key is not a column of the preserved side, or rows may leave in between.
NOT_REPEATED = {
    "key_of_the_other_side": "SELECT * FROM p LEFT JOIN b ON p.k = b.j ORDER BY n DESC, id LIMIT 5",
    "computed_key": "SELECT * FROM p LEFT JOIN b ON p.k = b.j ORDER BY id + n, id LIMIT 5",
    "full_join": "SELECT * FROM p FULL JOIN b ON p.k = b.j ORDER BY id DESC NULLS LAST LIMIT 5",
    "condition_above": (
        "SELECT * FROM p LEFT JOIN b ON p.k = b.j WHERE n IS NULL OR n > 3 ORDER BY id DESC LIMIT 5"
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("outer")
    joins.view(spark, folder, "p", joins.probe())
    keys = [*joins.within_row_group(3), *joins.within_row_group(19), 5, 5, None]
    joins.view(spark, folder, "b", joins.build(keys))


def _orders(spark: SparkSession, query: str, *groups: dict[str, str]) -> list[int]:
    """How many columns each TopK of the plan sorts by."""
    with settings(spark, *groups):
        plan = spark.sql(f"EXPLAIN {query}").collect()[0][0]
    return [len(order.split(",")) for order in re.findall(r"orderBy=\[([^\]]*)\]", plan)]


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("shape", REPEATED)
def test_repeated_below(compare: Comparer, shape: str, adaptive: str) -> None:
    """Without TopKBelowJoin no filter fires: "the operator SortMergeJoin is in the way"."""
    run = compare(REPEATED[shape], SHUFFLED, joins.ADAPTIVE[adaptive])
    topks = [f for f in run.on.report.filters if f["producer"] == "topk"]
    assert [f["state"] for f in topks] == ["ready"], str(run.on)


@pytest.mark.parametrize("shape", NOT_REPEATED)
def test_not_repeated(spark: SparkSession, compare: Comparer, shape: str) -> None:
    compare(NOT_REPEATED[shape], SHUFFLED, fires=None)
    assert len(_orders(spark, NOT_REPEATED[shape], SHUFFLED)) == 1


def test_the_lower_topk_sorts_by_all_columns(spark: SparkSession) -> None:
    """Otherwise a lost shuffle file could bring other tied rows to some tasks of the join."""
    assert _orders(spark, REPEATED["left"], SHUFFLED) == [1, 6]


def test_not_repeated_below_a_broadcast_join_or_switched_off(spark: SparkSession, compare: Comparer) -> None:
    compare(REPEATED["left"], BROADCAST)
    assert _orders(spark, REPEATED["left"], BROADCAST) == [1]
    for key in ("enabled", "topk.enabled"):
        assert _orders(spark, REPEATED["left"], SHUFFLED, {f"spark.dynamicFilters.{key}": "false"}) == [1]


def test_the_other_side_is_filtered_by_the_best_rows(compare: Comparer) -> None:
    """Without the order by all columns there is none: "the input is not deterministic (a limit)"."""
    run = compare("SELECT b.w, p.id FROM b LEFT JOIN p ON b.j = p.k ORDER BY w DESC LIMIT 5", SHUFFLED).on
    joins.assert_ready(run, "k")
    joins.assert_row_groups_pruned(run, "k")


def test_equal_limits_on_both_sides(compare: Comparer) -> None:
    """The TopK of the other side is no reason to leave the upper one without a filter."""
    other = "(SELECT j FROM b ORDER BY n LIMIT 10)"
    run = compare(f"SELECT p.* FROM p JOIN {other} t ON p.k = t.j ORDER BY p.id DESC LIMIT 10", BROADCAST).on
    assert any(f["producer"] == "topk" and f["columns"] == ["id"] for f in run.report.filters), str(run)


def test_ties_of_the_side(assert_same_result: Check, spark: SparkSession) -> None:
    query = "SELECT v, n FROM p LEFT JOIN b ON p.k = b.j ORDER BY v DESC LIMIT 50"
    with settings(spark, SHUFFLED):
        assert_same_result(query, keys=["v"], fires=None)

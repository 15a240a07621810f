"""Joins by several keys: rows are skipped whose tuple of keys the build side has not, where each key alone
has a match: types, nulls, and kinds of joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import joins, tuples
from support.joins import STRATEGIES, Comparer
from support.tuples import MATCHING, assert_by_tuples, tuples_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    return tuples.compared(spark, tmp_path_factory.mktemp("tuples"))


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_two_numbers(compare: Comparer, strategy: str, adaptive: str) -> None:
    query = "SELECT p.id, b.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_int = b.v_int"
    settings = (STRATEGIES[strategy], joins.ADAPTIVE[adaptive])
    fires = joins.in_time(strategy, adaptive)
    result = compare(query, *settings, fires=fires)
    assert len(result.off.rows) == MATCHING
    if not fires:
        return
    assert_by_tuples(result.on, "x_int", "y_int")
    for column in ("x_int", "y_int"):
        single = [f for f in result.on.on_column(column) if len(f["columns"]) == 1]
        assert [f["form"] for f in single] == ["range"], "the keys alone were to leave nothing out"


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("int", "string"),
        ("string", "bigint"),
        ("decimal", "date"),
        ("double", "binary"),
        ("big_decimal", "double"),
        ("tinyint", "timestamp"),
        ("wide_decimal", "string"),
    ],
)
def test_types(compare: Comparer, x: str, y: str, strategy: str) -> None:
    query = f"SELECT p.id, p.payload, b.id FROM p JOIN b ON p.x_{x} = b.u_{x} AND p.y_{y} = b.v_{y}"
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_integers_of_two_widths(compare: Comparer, strategy: str) -> None:
    for x, u, y, v in (
        ("int", "bigint", "bigint", "int"),
        ("tinyint", "int", "string", "string"),
        ("bigint", "tinyint", "int", "bigint"),
    ):
        query = f"SELECT p.id, p.payload, b.id FROM p JOIN b ON p.x_{x} = b.u_{u} AND p.y_{y} = b.v_{v}"
        result = compare(query, STRATEGIES[strategy])
        assert len(result.off.rows) == MATCHING
        assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_three_keys(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, p.payload FROM p JOIN b "
        "ON p.x_int = b.u_int AND p.y_string = b.v_string AND p.y_date = b.v_date"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert_by_tuples(result.on, "x_int", "y_string", "y_date")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("first", "second"), [("=", "<=>"), ("<=>", "="), ("<=>", "<=>")])
def test_nulls_as_values(compare: Comparer, first: str, second: str, strategy: str) -> None:
    for x, y in (("int", "int"), ("string", "date")):
        query = (
            f"SELECT p.id, p.payload, b.id FROM p JOIN b "
            f"ON p.x_{x} {first} b.u_{x} AND p.y_{y} {second} b.v_{y}"
        )
        result = compare(query, STRATEGIES[strategy])
        assert len(result.off.rows) > MATCHING, "no null has a match"
        assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


def test_tuples_that_are_null_match_nothing(compare: Comparer) -> None:
    query = "SELECT p.id FROM p JOIN half_null b ON p.x_int = b.u_int AND p.y_int = b.v_int"
    for settings in STRATEGIES.values():
        # Adaptive execution may drop the scan before it runs.
        result = compare(query, settings, fires=None)
        assert not result.off.rows
        joins.assert_never_read(result.on, "x_int")
    compare(query, joins.BROADCAST, joins.ADAPTIVE["off"])


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_empty_build_side(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id FROM p JOIN nothing b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    # Adaptive execution may drop the scan before it runs.
    result = compare(query, STRATEGIES[strategy], fires=None)
    joins.assert_never_read(result.on, "x_int", "y_string")
    if strategy == "broadcast":
        compare(query, joins.BROADCAST, joins.ADAPTIVE["off"])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_tuples_are_a_bloom_filter(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_int = b.v_int"
    few = {"spark.dynamicFilters.in.maxValues": "20", "spark.dynamicFilters.bloom.fpp": "0.0001"}
    result = compare(query, STRATEGIES[strategy], few)
    assert_by_tuples(result.on, "x_int", "y_int", form="bloom")


# Joins whose probe side may lose rows without a match.
FILTERED = {
    "semi": "SELECT p.id, p.payload FROM p LEFT SEMI JOIN b ON {on}",
    "in": "SELECT p.id, p.payload FROM p WHERE (x_int, y_string) IN (SELECT u_int, v_string FROM b)",
    "exists": "SELECT p.id, p.payload FROM p WHERE EXISTS (SELECT 1 FROM b WHERE {on})",
    "right_of_left_outer": "SELECT b.id, p.payload FROM b LEFT JOIN p ON {on}",
    "left_of_right_outer": "SELECT b.id, p.payload FROM p RIGHT JOIN b ON {on}",
    "right_of_anti": "SELECT b.id FROM b LEFT ANTI JOIN p ON {on} AND p.payload <> 'z'",
    "with_condition": "SELECT p.id, b.id FROM p JOIN b ON {on} AND length(p.payload) > b.id % 3",
}

# Joins that need every row of the larger side, and words of the reason.
NOT_FILTERED = {
    "left_outer": ("SELECT p.id, b.id FROM p LEFT JOIN b ON {on}", "needs every row"),
    "anti": ("SELECT p.id FROM p LEFT ANTI JOIN b ON {on}", "needs every row"),
    "full_outer": ("SELECT p.id, b.id FROM p FULL JOIN b ON {on}", "needs every row"),
}

_ON = "p.x_int = b.u_int AND p.y_string = b.v_string"


@pytest.mark.core
@pytest.mark.parametrize("kind", FILTERED)
def test_kinds_of_joins(compare: Comparer, kind: str) -> None:
    result = compare(FILTERED[kind].format(on=_ON), joins.SHUFFLED)
    assert_by_tuples(result.on, "x_int", "y_string")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.core
@pytest.mark.parametrize("kind", NOT_FILTERED)
def test_kinds_of_joins_that_need_every_row(compare: Comparer, kind: str, strategy: str) -> None:
    query, reason = NOT_FILTERED[kind]
    settings = STRATEGIES[strategy]
    run = compare(query.format(on=_ON), settings, fires=False).on
    joins.assert_not_pruned(run, "x_int", "y_string")
    assert not tuples_on(run, "x_int", "y_string"), str(run)
    if kind == "full_outer" or settings is joins.BROADCAST:
        joins.assert_reason(run, reason)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_null_aware_anti_join(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id FROM p WHERE (x_int, y_string) NOT IN (SELECT u_int, v_string FROM b)"
    settings = STRATEGIES[strategy]
    run = compare(query, settings, fires=False).on
    joins.assert_not_pruned(run, "x_int", "y_string")

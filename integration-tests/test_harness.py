"""The test harness itself: what it compares, what it says when rows differ, how it starts Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.checks import Check

pytestmark = pytest.mark.client


def _changing(spark: SparkSession, texts: list[str]) -> Callable[[], DataFrame]:
    """A query that is another one each time: what a wrong filter would look like.

    Most of them have no scan: a comparison that passes says `fires=False`.
    """
    remaining = iter(texts)
    return lambda: spark.sql(next(remaining))


def test_differing_rows_are_shown(spark: SparkSession, t: str, assert_same_result: Check) -> None:
    query = _changing(
        spark, [f"SELECT id FROM {t} ORDER BY id LIMIT 3", f"SELECT id FROM {t} ORDER BY id LIMIT 2"]
    )
    with pytest.raises(AssertionError) as caught:
        assert_same_result(query)
    message = str(caught.value)
    assert "3 rows without them, 2 with them" in message
    assert "spark.dynamicFilters.enabled=true" in message
    assert "only without dynamic filters (1 rows" in message
    assert "Row(id=2)" in message
    assert "FileScan parquet" in message
    # The settings are what they were, also after a failure.
    assert spark.conf.get("spark.dynamicFilters.enabled") == "true"


def test_ties_are_told_from_other_rows(spark: SparkSession, t: str, assert_same_result: Check) -> None:
    """A LIMIT may choose among rows that are equal in its sort keys."""
    tied = [f"SELECT id, grp FROM {t} WHERE seq % 2 = {n} ORDER BY grp DESC LIMIT 3" for n in (0, 1)]
    for ordered in (False, True):
        with pytest.raises(AssertionError) as caught:
            assert_same_result(_changing(spark, tied), ordered=ordered)
        assert str(caught.value).splitlines()[0] == "only ties differ; pass keys=['grp']"
    assert_same_result(_changing(spark, tied), keys=["grp"], ordered=True)
    # Other keys, too: no tie.
    other = [f"SELECT id, grp FROM {t} WHERE grp < {n} ORDER BY grp DESC LIMIT 3" for n in (9, 4)]
    with pytest.raises(AssertionError, match=r"^dynamic filters changed the result"):
        assert_same_result(_changing(spark, other))


def test_order_is_compared_on_demand(spark: SparkSession, assert_same_result: Check) -> None:
    texts = ["SELECT * FROM VALUES 1, 2, 3 AS v(x)", *["SELECT * FROM VALUES 1, 3, 2 AS v(x)"] * 5]
    assert_same_result(_changing(spark, texts), fires=False)
    with pytest.raises(AssertionError, match=r"another order, first at row 1: without .*2.*, with .*3"):
        assert_same_result(_changing(spark, texts), ordered=True)


def test_what_cannot_be_compared(new_session: Callable[[], SparkSession], assert_same_result: Check) -> None:
    with pytest.raises(ValueError, match="another session"):
        assert_same_result(new_session().range(5))


@pytest.mark.core
def test_equal_rows_without_a_filter_are_a_failure(t: str, assert_same_result: Check) -> None:
    """The failure says why there is no filter, and what to pass if none is expected."""
    rejected = f"SELECT min(id % 7) FROM {t}"
    with pytest.raises(AssertionError, match=r"^no dynamic filter fired; pass fires=False") as caught:
        assert_same_result(rejected)
    assert f"query: {rejected}" in str(caught.value)
    assert "reasons: the aggregated column is computed" in str(caught.value)
    # Spark knows these rows without running anything.
    with pytest.raises(AssertionError, match=r"^no dynamic filter fired"):
        assert_same_result("SELECT 1 AS x")
    for fires in (False, None):
        assert not assert_same_result(rejected, fires=fires).fired()


@pytest.mark.core
def test_single_producers(t: str, assert_same_result: Check) -> None:
    query = f"SELECT * FROM {t} JOIN (SELECT max(id) AS m FROM {t}) ON id = m ORDER BY id LIMIT 5"
    result = assert_same_result(query)
    assert {f["producer"] for f in result.filters} == {"topk", "join", "aggregate"}
    assert list(result.rows) == ["off", "on", "topk", "join", "aggregate"]
    result = assert_same_result(query, alone=False, ordered=True)
    assert list(result.rows) == ["off", "on"]
    assert result.off == result.on
    assert "DynamicFilter#" in result.plan
    assert result.reasons() == []


@pytest.mark.large
def test_the_example_project(tmp_path: Path) -> None:
    """It has a pytest and a Spark of its own, as its users will have."""
    project = Path(__file__).parents[1] / "examples" / "tests-of-your-own"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir"]
    done = subprocess.run(
        [*command, str(project), str(project)], cwd=tmp_path, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout

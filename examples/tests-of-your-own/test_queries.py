"""Dynamic filters change no row of the project's queries, and are at work where they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing import SameResult

    Check = Callable[..., SameResult]


def test_latest(spark: SparkSession, assert_same_result: Check) -> None:
    # Not only equal rows: it fails, too, if no filter was built or no scan skipped rows by it.
    result = assert_same_result(queries.latest(spark, 20), ordered=True)
    assert len(result.on) == 20


def test_ties_are_free(assert_same_result: Check) -> None:
    # Which of several sales of a day are returned is up to Spark, so only the days are compared.
    assert_same_result("SELECT day, id FROM sales ORDER BY day DESC LIMIT 30", keys=["day"])


def test_sales_in_a_region(spark: SparkSession, assert_same_result: Check) -> None:
    result = assert_same_result(queries.sales_in(spark, "north"))
    assert {f["producer"] for f in result.filters} == {"join"}


def test_first_and_last_day(spark: SparkSession, assert_same_result: Check) -> None:
    assert_same_result(queries.first_and_last_day(spark))


def test_why_there_is_no_filter(assert_same_result: Check) -> None:
    result = assert_same_result("SELECT min(amount + 1) FROM sales", fires=False)
    assert "the aggregated column is computed" in result.reasons()[0]

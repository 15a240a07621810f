"""Tables and checks for user filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_dynamic_filters._analyze import tagged
from spark_dynamic_filters._report import QueryReport, by_tag


def reported(spark: SparkSession, run: Callable[[], Any]) -> tuple[Any, QueryReport]:
    """What `run` returns, and the report of the newest query that it ran."""
    with tagged(spark) as tag:
        result = run()
    report = by_tag(spark, tag)
    assert report is not None
    return result, report


def users(report: QueryReport) -> list[Any]:
    """The report's users' filters."""
    return [f for f in report.filters if f["producer"] == "user"]


def assert_in_scan(report: QueryReport, form: str | None = None) -> None:
    """A scan had the filter, and skipped rows by it."""
    filters = users(report)
    assert filters, report.plan
    assert all(f["state"] == "ready" and f["reason"] is None for f in filters), filters
    ids = {f["filter_id"] for f in filters}
    scans = [s for s in report.scans if ids & set(s["filter_ids"])]
    assert any(s["rows_pruned"] > 0 or s["files_pruned"] > 0 for s in scans), report.scans
    if form is not None:
        assert {f["form"] for f in filters} == {form}


def ids(df: DataFrame, column: str = "id") -> list[int]:
    """The values of a column, sorted."""
    return sorted(r[column] for r in df.select(column).collect())


def expected(df: DataFrame, condition: str) -> list[int]:
    """The same for rows that a plain condition passes."""
    return ids(df.where(condition))

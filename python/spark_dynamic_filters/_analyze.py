"""Runs a query, drops its rows and shows what its filters did."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import _analysis_html, _analysis_text
from ._commands import is_command_result, run_query
from ._errors import DynamicFiltersError, InvalidArgument
from ._report import QueryReport, by_tag
from ._session import session_of
from ._status import status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Analysis(QueryReport, _analysis_html.Page):
    """One run of a query; made by `analyze(df)`. Prints as text, and shows in a notebook with the plan drawn.

    Attributes:
        query_id: Spark's SQL execution id.
        plan: the executed plan as text, with the filters in force.
        filters: the query's rows of `dynamic_filters()`.
        scans: the query's rows of `dynamic_filter_scans()`.
        duration_ms: from the query's start to its end, None if that is not known.
        times: when each filter came and was used, see `dynamic_filter_report` in docs/table-functions.md.
        seconds: wall-clock time of the run.
    """

    def __init__(self, report: QueryReport, seconds: float) -> None:
        super().__init__(**vars(report))
        self.seconds = seconds

    def __str__(self) -> str:
        return _analysis_text.render(self, self.seconds)

    def __repr__(self) -> str:
        counts = f"filters={len(self.filters)}, scans={len(self.scans)}"
        return f"Analysis(query_id={self.query_id}, {counts}, seconds={self.seconds:.3f})"

    def _repr_html_(self) -> str:
        return _analysis_html.render(self, self.seconds)

    def _title(self) -> str:
        return f"query {self.query_id}"

    def summary(self) -> str:
        """One sentence: how many filters were in force and what they skipped; without one, why."""
        return self.sentence


def analyze(df: DataFrame) -> Analysis:
    """Runs `df` to its end, drops its rows, and says what its dynamic filters did.

    Args:
        df: any batch DataFrame of a classic or Spark Connect session. It is planned anew, under the
            settings in force now.

    Returns:
        The plan with filters in force, the filters with their generations, and what each scan skipped.

    Raises:
        InvalidArgument: `df` is no batch DataFrame of Spark's, or the result of a command, as `CREATE TABLE
            ... AS SELECT`, `INSERT` or `MERGE`, which `spark.sql` ran already.
        PluginNotLoaded: the plugin is not active; the message says what to add.
        VersionMismatch: plugin and this package do not go together; the message says which to change.
        DynamicFiltersError: the plugin kept no report of the run.
    """
    return run_analyzed(require_query("analyze", df), "analyze", df)


def run_analyzed(spark: SparkSession, what: str, df: DataFrame) -> Analysis:
    """Runs a DataFrame that `require_query` has accepted, and times it.

    Args:
        what: the function that was called, for the message.

    Raises:
        DynamicFiltersError: the plugin kept no report of the run.
    """
    with tagged(spark) as tag:
        start = time.perf_counter()
        run_query(df)
        seconds = time.perf_counter() - start
    report = by_tag(spark, tag)
    if report is None:
        raise DynamicFiltersError(
            f"{what}: the plugin kept no report of this run; other queries of this session may have "
            "pushed it out: raise spark.dynamicFilters.report.retainedQueries"
        )
    return Analysis(report, seconds)


def require_query(what: str, df: DataFrame) -> SparkSession:
    """The session of a batch DataFrame that can be run, with an active plugin.

    Args:
        what: the function that was called, for the message.

    Raises:
        InvalidArgument, PluginNotLoaded, VersionMismatch: as for `analyze`.
    """
    spark = session_of(what, df)
    if df.isStreaming:
        raise InvalidArgument(
            f"{what}: expected a batch DataFrame, got a streaming one, which has no filters"
        )
    status(spark)
    if is_command_result(df):
        raise InvalidArgument(
            f"{what}: spark.sql ran this command already, and it is not run twice; run it inside of "
            "`with sdf.watch(spark) as w:` and print(w)"
        )
    return spark


@contextmanager
def tagged(spark: SparkSession) -> Iterator[str]:
    """Tags all queries of the body with a fresh, unique tag, which it yields."""
    tag = f"dynamic-filters-{uuid.uuid4().hex}"
    spark.addTag(tag)
    try:
        yield tag
    finally:
        spark.removeTag(tag)

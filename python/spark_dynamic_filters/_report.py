"""The plugin's reports as DataFrames, and one query's report by its tag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._conf import conf
from ._session import require_session, sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def filters(spark: SparkSession) -> DataFrame:
    """One row a filter of this session's queries, those that the planner rejected included.

    Its columns are those of the table function `dynamic_filters()` (docs/table-functions.md).
    The newest query has the highest `query_id`.

    Raises:
        InvalidArgument: `spark` is no session, or a stopped one.
        PluginNotLoaded: the plugin is not active; the message says what to add.
    """
    return _function("filters", spark, "dynamic_filters")


def scans(spark: SparkSession) -> DataFrame:
    """One row a filtered scan of this session's queries.

    Its columns are those of the table function `dynamic_filter_scans()` (docs/table-functions.md).
    The totals are what the scan would have read without dynamic filters.

    Raises:
        InvalidArgument: `spark` is no session, or a stopped one.
        PluginNotLoaded: the plugin is not active; the message says what to add.
    """
    return _function("scans", spark, "dynamic_filter_scans")


def _function(what: str, spark: SparkSession, name: str) -> DataFrame:
    require_session(what, spark)
    # Asking for a setting first is the quieter way to find that the plugin is missing: no error in
    # PySpark's log.
    conf(spark)
    return sql(spark, f"SELECT * FROM {name}()")


@dataclass(eq=False)
class QueryReport:
    """What the plugin reported of one query, read once.

    Attributes:
        query_id, plan, filters, scans, duration_ms, times: see `Analysis`.
        processor_ms: processor time of its tasks.
        description: as Spark's UI shows it.
        sentence: what filters did, as `dynamic_filter_summary()` says it.
        part_of: the query that runs it, as a MERGE into Delta runs others; None if it is no part.
    """

    query_id: int
    plan: str
    filters: list[Row]
    scans: list[Row]
    duration_ms: int | None = None
    times: Sequence[Row] = ()
    processor_ms: int = 0
    description: str = ""
    sentence: str = ""
    part_of: int | None = None

    def fired(self) -> bool:
        """Whether a filter was built and rows were skipped because of it."""
        built = any((f["generation"] or 0) > 0 for f in self.filters)
        # A file that was never opened counts in files only: nobody has read how many rows it has.
        return built and any((s["rows_pruned"] or 0) > 0 or (s["files_pruned"] or 0) > 0 for s in self.scans)

    def reasons(self) -> list[str]:
        """Why filters that were considered are not in force."""
        return [f["reason"] for f in self.filters if f["state"] == "disabled"]


def by_tag(spark: SparkSession, tag: str) -> QueryReport | None:
    """The report of the newest query that ran under `tag` (see `SparkSession.addTag`), parts of others aside.

    Returns:
        None if no query with this tag is known: it ran without a SQL execution, or the report has forgotten
        it.
    """
    found = [report for report in all_by_tag(spark, tag) if report.part_of is None]
    return found[-1] if found else None


def all_by_tag(spark: SparkSession, tag: str) -> list[QueryReport]:
    """The reports of all queries that ran under `tag`, oldest first."""
    rows = sql(spark, f"SELECT * FROM dynamic_filter_report('{tag}')").collect()
    return [
        QueryReport(
            query["query_id"],
            query["plan"],
            # Those that the planner rejected come last.
            sorted(query["filters"], key=lambda f: (f["filter_id"] is None, int(f["filter_id"] or 0))),
            sorted(query["scans"], key=lambda s: s["scan_id"]),
            query["duration_ms"],
            sorted(query["times"], key=lambda f: int(f["filter_id"])),
            query["processor_ms"],
            query["description"],
            query["summary"],
            query["part_of"],
        )
        for query in sorted(rows, key=lambda query: query["query_id"])
    ]

"""The plugin's reports as DataFrames, and one query's report by its tag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ._conf import conf
from ._session import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# The report is filled by Spark's listener thread, so it may be a moment behind the query; not more than this.
_END_WAIT_SECONDS = 10.0
# A query may leave no report at all: where the answer is known without running anything, Spark runs nothing.
_BEGIN_WAIT_SECONDS = 0.5
_POLL_SECONDS = 0.05


def filters(spark: SparkSession) -> DataFrame:
    """One row a filter of this session's queries, those that the planner rejected included.

    Columns: `query_id BIGINT, filter_id STRING, producer STRING, columns ARRAY<STRING>, form STRING, state
        STRING,
    reason STRING, generation BIGINT, expression STRING, size_bytes BIGINT, wait_ms BIGINT, ready_ms BIGINT`.
    The newest query has the highest `query_id`.

    Raises:
        PluginNotLoaded: the plugin is not active; the message says what to add.
    """
    return _function(spark, "dynamic_filters")


def scans(spark: SparkSession) -> DataFrame:
    """One row a filtered scan of this session's queries.

    Columns: `query_id BIGINT, scan_id BIGINT, table_name STRING, filter_ids ARRAY<STRING>, files_total
        BIGINT,
    files_pruned BIGINT, row_groups_total BIGINT, row_groups_pruned BIGINT, rows_total BIGINT, rows_pruned
    BIGINT, rows_output BIGINT, bytes_total BIGINT, bytes_read BIGINT`. The totals are what the scan would
    have read without dynamic filters.

    Raises:
        PluginNotLoaded: the plugin is not active; the message says what to add.
    """
    return _function(spark, "dynamic_filter_scans")


def _function(spark: SparkSession, name: str) -> DataFrame:
    # Asking for a setting first is the quieter way to find that the plugin is missing: no error in
    # PySpark's log.
    conf(spark)
    return sql(spark, f"SELECT * FROM {name}()")


class QueryReport:
    """What the plugin reported of one query, read once.

    Attributes:
        query_id: Spark's SQL execution id.
        plan: the executed plan as text, with the filters in force.
        filters: the query's rows of `dynamic_filters()`.
        scans: the query's rows of `dynamic_filter_scans()`.
    """

    def __init__(self, query_id: int, plan: str, filters: list[Row], scans: list[Row]) -> None:
        self.query_id = query_id
        self.plan = plan
        self.filters = filters
        self.scans = scans

    def fired(self) -> bool:
        """Whether a filter was built and rows were skipped because of it."""
        built = any((f["generation"] or 0) > 0 for f in self.filters)
        # A file that was never opened counts in files only: nobody has read how many rows it has.
        return built and any((s["rows_pruned"] or 0) > 0 or (s["files_pruned"] or 0) > 0 for s in self.scans)

    def reasons(self) -> list[str]:
        """Why filters that were considered are not in force."""
        return [f["reason"] for f in self.filters if f["state"] == "disabled"]


def by_tag(spark: SparkSession, tag: str) -> QueryReport | None:
    """The report of the newest query that ran under `tag` (see `SparkSession.addTag`).

    Returns:
        None if no query with this tag is known: it ran without a SQL execution, or the report has forgotten
        it.
    """
    # Spark decorates tags with user and session, hence contains. The tag is a generated hexadecimal number.
    text = (
        "SELECT query_id, state, plan FROM dynamic_filter_queries() "
        f"WHERE exists(tags, t -> contains(t, '{tag}'))"
    )
    # A new statement each time: a DataFrame may keep the rows that the table function had when it was
    # analysed.
    start = time.monotonic()
    rows = sql(spark, text).collect()
    while time.monotonic() - start < (_END_WAIT_SECONDS if rows else _BEGIN_WAIT_SECONDS):
        if rows and _newest(rows)["state"] != "running":
            break
        time.sleep(_POLL_SECONDS)
        rows = sql(spark, text).collect()
    if not rows:
        return None
    query = _newest(rows)
    return QueryReport(query["query_id"], query["plan"], *_filters_and_scans(spark, query["query_id"]))


def _newest(queries: list[Row]) -> Row:
    # Few rows: chosen here, which spares Spark the two jobs of a sort.
    return max(queries, key=lambda query: query["query_id"])


def _filters_and_scans(spark: SparkSession, query_id: int) -> tuple[list[Row], list[Row]]:
    # In one query: each is a Spark job, which costs more than what it brings.
    text = " UNION ALL ".join(
        f"SELECT {columns} FROM {function}() WHERE query_id = {int(query_id)}"
        for function, columns in (
            ("dynamic_filters", "struct(*) AS f, NULL AS s"),
            ("dynamic_filter_scans", "NULL AS f, struct(*) AS s"),
        )
    )
    rows = sql(spark, text).collect()
    filters = [row["f"] for row in rows if row["f"] is not None]
    scans = [row["s"] for row in rows if row["s"] is not None]
    return sorted(filters, key=lambda f: f["filter_id"] or ""), sorted(scans, key=lambda s: s["scan_id"])

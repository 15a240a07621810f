"""Values of scalar subqueries as filters: `WHERE id = (SELECT max(last) FROM days)`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import SameResult, assert_same_result
from support import joins, tables
from support.user_filters import reported

CODEGEN = {
    "compiled": {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"},
    "interpreted": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
}
LAST = "(SELECT max(last) FROM days)"


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tables: a fact table f with keys k from 0 to 1,999 in four files, of which days names a few; t of every
    type; at with a column of times."""
    folder = tmp_path_factory.mktemp("subqueries")
    joins.view(spark, folder, "f", joins.probe())
    days = {
        "day": pa.array([1, 2, 3], pa.int64()),
        "last": pa.array([1_200, 1_250, 1_300], pa.int64()),
        "none": pa.array([None, None, None], pa.int64()),
        "small": pa.array([7, 8, 9], pa.int32()),
    }
    joins.view(spark, folder, "days", pa.table(days))
    joins.view(spark, folder, "t", tables.all_types())
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    times = [first + dt.timedelta(minutes=i) for i in range(tables.ROWS)]
    at = {"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "id": pa.array(range(tables.ROWS), pa.int64())}
    joins.view(spark, folder, "at", pa.table(at))


def _subqueries(result: SameResult) -> list[Any]:
    return [f for f in result.filters if f["producer"] == "subquery"]


def _files_pruned(result: SameResult) -> int:
    ids = {f["filter_id"] for f in _subqueries(result) if f["state"] == "ready"}
    return sum(s["files_pruned"] for s in result.scans if ids & set(s["filter_ids"]))


def _result(spark: SparkSession, query: str) -> SameResult:
    # The driver learns the bounds of files from the first run.
    spark.sql(query).collect()
    return assert_same_result(spark, query)


def _assert_files(spark: SparkSession, query: str, files: int, expression: str | None = None) -> None:
    result = _result(spark, query)
    filters = _subqueries(result)
    assert [(f["state"], f["reason"]) for f in filters] == [("ready", None)] * len(filters), filters
    assert _files_pruned(result) == files, str(result.analysis)
    if expression:
        assert [f["expression"] for f in filters] == [expression], filters
        assert f": {expression}]" in result.plan, result.plan


# Files have the keys 0 to 499, 500 to 999, and so on.
SKIPPED = [
    (f"k = {LAST}", 3, "k = 1300"),
    (f"k > {LAST}", 2, "k > 1300"),
    (f"{LAST} <= k", 2, "k >= 1300"),
    ("k < (SELECT min(day) FROM days)", 3, "k < 1"),
    (
        "k BETWEEN (SELECT min(last) FROM days) AND (SELECT max(last) FROM days)",
        3,
        "1200 <= k <= 1300",
    ),
    (f"k = {LAST} - (SELECT max(day) FROM days) + 1", 3, "k = 1298"),
    (f"k <=> {LAST}", 3, "k = 1300"),
    # Spark casts the column to the subquery's type.
    (f"g = 3 AND id > {LAST} * 2", 2, "id > 2600"),
    ("k DIV 100 = (SELECT max(last) DIV 100 FROM days)", 3, "(f.k div ?) = 13"),
    ("s = (SELECT concat('0012', '00') FROM days WHERE day = 1)", 3, "s = '001200'"),
]


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(("condition", "files", "expression"), SKIPPED, ids=[c for c, _, _ in SKIPPED])
def test_files_are_skipped(
    spark: SparkSession, adaptive: str, condition: str, files: int, expression: str
) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        _assert_files(spark, f"SELECT id, payload FROM f WHERE {condition}", files, expression)


@pytest.mark.processes
@pytest.mark.client
@pytest.mark.parametrize("code", CODEGEN)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_ways_to_execute(spark: SparkSession, adaptive: str, code: str) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive], CODEGEN[code]):
        _assert_files(spark, f"SELECT g, count(*), max(payload) FROM f WHERE k = {LAST} GROUP BY g", 3)


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    ("value", "operators"),
    [
        ("(SELECT max(none) FROM days)", ("=", "<")),
        ("(SELECT last FROM days WHERE day > 100)", ("=", ">=")),
    ],
    ids=["null", "empty"],
)
def test_null_as_a_value(spark: SparkSession, adaptive: str, value: str, operators: tuple[str, ...]) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        for operator in operators:
            result = assert_same_result(spark, f"SELECT id FROM f WHERE k {operator} {value}", fires=None)
            assert result.on == []
            assert [(f["form"], f["expression"]) for f in _subqueries(result)] == [("nothing", "false")]
            assert _files_pruned(result) == 4, str(result.analysis)
        result = assert_same_result(spark, f"SELECT id FROM f WHERE k <=> {value}")
        assert len(result.on) > 0
        assert [f["expression"] for f in _subqueries(result)] == ["k IS NULL"]


@pytest.mark.parametrize(
    "column",
    [pytest.param(c, marks=pytest.mark.client) if c in ("c_double", "c_string") else c for c in tables.TYPES],
)
def test_types(spark: SparkSession, column: str) -> None:
    """NaN and text beyond ASCII are among the values. `ComparisonSuite` has each operator of each type."""
    operator = ("=", "<=", ">", "<=>")[list(tables.TYPES).index(column) % 4]
    query = f"SELECT id, {column} FROM t WHERE {column} {operator} (SELECT max({column}) FROM t)"
    result = assert_same_result(spark, query, fires=None)
    assert [f["state"] for f in _subqueries(result)] == ["ready"], result.reasons()


# A client does not know the jobs of a query.
@pytest.mark.exhaustive
def test_a_subquery_runs_once(spark: SparkSession) -> None:
    """A query has as many jobs as without filters."""
    both = (
        f"SELECT count(*) FROM f WHERE k >= {LAST} AND id > {LAST} "
        f"UNION ALL SELECT id FROM f WHERE k = {LAST}"
    )
    for adaptive in joins.ADAPTIVE.values():
        with joins.settings(spark, adaptive):
            calls = []
            for enabled in (False, True):
                with sdf.conf(spark).override(enabled=enabled):
                    calls.append(_jobs(spark, both))
            assert calls[0] == calls[1], calls


def _jobs(spark: SparkSession, query: str) -> int:
    context = spark.sparkContext
    group = f"subqueries-{id(object())}-{spark.conf.get('spark.dynamicFilters.enabled')}"
    context.setJobGroup(group, query)
    try:
        spark.sql(query).collect()
    finally:
        context._jsc.clearJobGroup()
    return len(context.statusTracker().getJobIdsForGroup(group))


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_a_failing_subquery_fails_as_without_filters(spark: SparkSession, adaptive: str) -> None:
    failing = [
        "SELECT id FROM f WHERE k = (SELECT last FROM days)",
        "SELECT id FROM f WHERE k = (SELECT raise_error('no value') FROM days LIMIT 1)",
        # The value is computed outside of the subquery.
        "SELECT id FROM f WHERE k = 10 DIV (SELECT max(day) - 3 FROM days)",
    ]
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        for query in failing:
            joins.assert_same_failure(spark, query)


PLACES = {
    "union of types": "SELECT k FROM (SELECT k FROM f UNION ALL SELECT g FROM f) WHERE k = {last}",
    "on the preserved side": "SELECT f.id FROM f LEFT JOIN days ON f.g = days.small WHERE f.k > {last}",
    "aggregate": "SELECT k, count(*) FROM f WHERE k > {last} GROUP BY k",
    "in a subquery": "SELECT id FROM f WHERE k = (SELECT max(k) FROM f WHERE k <= {last})",
    "in an expression": "SELECT (SELECT sum(id) FROM f WHERE k = {last}) AS n",
    "table expression": "WITH d AS (SELECT max(last) AS x FROM days) SELECT id FROM f "
    "WHERE k = (SELECT x FROM d) AND id > (SELECT x FROM d)",
    "times": "SELECT id FROM at WHERE ts > (SELECT max(ts) - INTERVAL 6 HOURS FROM at)",
}


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("place", PLACES)
def test_places(spark: SparkSession, place: str, adaptive: str) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        result = _result(spark, PLACES[place].format(last=LAST))
    assert _files_pruned(result) > 0, str(result.analysis)


@pytest.mark.client
def test_a_data_frame_that_runs_twice(spark: SparkSession) -> None:
    df = spark.sql(f"SELECT id FROM f WHERE k = {LAST}")
    first = sorted(r.id for r in df.collect())
    again, report = reported(spark, lambda: sorted(r.id for r in df.collect()))
    assert first == again == [2_600, 2_601]
    assert [f["state"] for f in report.filters if f["producer"] == "subquery"] == ["ready"]


def test_other_sources(spark: SparkSession, tmp_path: Path) -> None:
    """Cached tables, ORC, and files whose rows alone can be filtered."""
    rows = spark.table("f").select("k", "id")
    rows.repartitionByRange(4, "k").write.orc(str(tmp_path / "orc"))
    rows.write.csv(str(tmp_path / "csv"))
    spark.read.orc(str(tmp_path / "orc")).createOrReplaceTempView("o")
    spark.read.schema("k BIGINT, id BIGINT").csv(str(tmp_path / "csv")).createOrReplaceTempView("c")
    spark.sql("CACHE TABLE kept AS SELECT k, id FROM f")
    try:
        for name, fires in (("o", None), ("kept", True), ("c", False)):
            result = assert_same_result(spark, f"SELECT id FROM {name} WHERE k = {LAST}", fires=fires)
            if fires is False:
                assert "can be filtered by rows only" in result.reasons()[0]
            else:
                assert [f["state"] for f in _subqueries(result)] == ["ready"], result.reasons()
    finally:
        spark.sql("DROP VIEW IF EXISTS kept")


REFUSED = {
    "column": (f"abs(k) = {LAST}", "the column is computed: abs(f.k)"),
    "reuse": (f"k = {LAST}", "Spark would run the subquery twice: spark.sql.execution.reuseSubquery=false"),
    "hint": (f"k = {LAST}", "the hint NO_DYNAMIC_FILTER is on the table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_reasons(spark: SparkSession, case: str) -> None:
    condition, reason = REFUSED[case]
    reuse = {"spark.sql.execution.reuseSubquery": str(case != "reuse").lower()}
    hint = "/*+ NO_DYNAMIC_FILTER(f) */" if case == "hint" else ""
    with joins.settings(spark, reuse):
        result = assert_same_result(spark, f"SELECT {hint} id FROM f WHERE {condition}", fires=False)
    assert reason in [f["reason"] for f in _subqueries(result)], result.filters


def test_a_value_that_cannot_be_computed_is_no_filter(spark: SparkSession) -> None:
    """No row is compared with the value, so the query does not fail."""
    query = "SELECT id FROM f WHERE id < 0 AND k = 10 DIV (SELECT max(day) - 3 FROM days)"
    result = assert_same_result(spark, query, fires=None)
    assert result.on == []
    reasons = [f["reason"] or "" for f in _subqueries(result)]
    assert reasons[0].startswith("the value cannot be computed"), reasons


@pytest.mark.client
def test_setting_and_values_that_are_not_shown(spark: SparkSession) -> None:
    query = "SELECT id FROM f WHERE k = (SELECT last FROM days WHERE day = 2)"
    conf = sdf.conf(spark)
    with conf.override(**{"subquery.enabled": False}):
        _, report = reported(spark, lambda: spark.sql(query).collect())
        assert report.filters == []
        assert "DynamicFilter#" not in report.plan
    with conf.override(**{"report.showValues": False}):
        _, report = reported(spark, lambda: spark.sql(query).collect())
        assert [f["expression"] for f in report.filters] == ["hidden"]
        assert "[k: hidden]" in report.plan
    explained = spark.sql(f"EXPLAIN {query}").collect()[0][0]
    assert "[k: not known yet]" in explained, explained

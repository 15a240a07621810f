"""Values of scalar subqueries as filters: `WHERE id = (SELECT max(last) FROM days)`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import SameResult, assert_same_result
from support import joins, tables
from support.user_filters import reported

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(170)]

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
        "text": ["000001", "000002", "000003"],
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


def _learned(spark: SparkSession, query: str) -> None:
    """Runs a query once, from which the driver learns the bounds of its files."""
    spark.sql(query).collect()


def _assert_files(spark: SparkSession, query: str, files: int, expression: str | None = None) -> None:
    _learned(spark, query)
    result = assert_same_result(spark, query)
    filters = _subqueries(result)
    assert [(f["state"], f["reason"]) for f in filters] == [("ready", None)] * len(filters), filters
    assert _files_pruned(result) == files, str(result.analysis)
    if expression:
        assert [f["expression"] for f in filters] == [expression], filters
        assert f": {expression}]" in result.plan, result.plan


# Files have the keys 0 to 499, 500 to 999, and so on.
SKIPPED = [
    (f"k = {LAST}", 3, "k = 1300"),
    (f"{LAST} = k", 3, "k = 1300"),
    (f"k > {LAST}", 2, "k > 1300"),
    (f"{LAST} <= k", 2, "k >= 1300"),
    ("k < (SELECT min(day) FROM days)", 3, "k < 1"),
    ("k <= (SELECT 10 * max(day) FROM days)", 3, "k <= 30"),
    (
        "k BETWEEN (SELECT min(last) FROM days) AND (SELECT max(last) FROM days)",
        3,
        "1200 <= k <= 1300",
    ),
    (f"k = {LAST} - (SELECT max(day) FROM days) + 1", 3, "k = 1298"),
    (f"k <=> {LAST}", 3, "k = 1300"),
    # Spark casts the column to the subquery's type.
    (f"g = 3 AND id > {LAST} * 2", 2, "id > 2600"),
    (f"k + 1 > {LAST}", 2, "(f.k + ?) > 1300"),
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
@pytest.mark.parametrize("code", CODEGEN)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_ways_to_execute(spark: SparkSession, adaptive: str, code: str) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive], CODEGEN[code]):
        _assert_files(spark, f"SELECT g, count(*), max(payload) FROM f WHERE k = {LAST} GROUP BY g", 3)


def test_times(spark: SparkSession) -> None:
    recent = "(SELECT max(ts) - INTERVAL 6 HOURS FROM at)"
    _assert_files(spark, f"SELECT id FROM at WHERE ts > {recent}", 3)
    first_hour = "(SELECT date_trunc('HOUR', min(ts)) FROM at)"
    _assert_files(spark, f"SELECT id FROM at WHERE date_trunc('HOUR', ts) = {first_hour}", 3)


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize(
    "value",
    ["(SELECT max(none) FROM days)", "(SELECT last FROM days WHERE day > 100)"],
    ids=["null", "empty"],
)
def test_null_as_a_value(spark: SparkSession, adaptive: str, value: str) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        for operator in ("=", "<", ">="):
            result = assert_same_result(spark, f"SELECT id FROM f WHERE k {operator} {value}", fires=None)
            assert result.on == []
            assert [(f["form"], f["expression"]) for f in _subqueries(result)] == [("nothing", "false")]
            assert _files_pruned(result) == 4, str(result.analysis)
        result = assert_same_result(spark, f"SELECT id FROM f WHERE k <=> {value}")
        assert len(result.on) > 0
        assert [f["expression"] for f in _subqueries(result)] == ["k IS NULL"]


@pytest.mark.parametrize("column", tables.TYPES)
def test_types(spark: SparkSession, column: str) -> None:
    """NaN, zeros of both signs and text beyond ASCII are among the values."""
    for value in (f"(SELECT max({column}) FROM t)", f"(SELECT min({column}) FROM t WHERE grp = 3)"):
        for operator in ("=", "<=", ">", "<=>"):
            query = f"SELECT id, {column} FROM t WHERE {column} {operator} {value}"
            result = assert_same_result(spark, query, fires=None)
            assert [f["state"] for f in _subqueries(result)] == ["ready"], result.reasons()


@pytest.mark.parametrize("column", ["c_float", "c_double"])
def test_zeros_and_nan(spark: SparkSession, column: str) -> None:
    kind = spark.table("t").schema[column].dataType.simpleString()
    for value in (f"-0.0{kind[0]}", f"0.0{kind[0]}", f"{kind}('NaN')", f"{kind}('Infinity')"):
        for operator in ("=", "<", ">="):
            query = f"SELECT id FROM t WHERE {column} {operator} (SELECT max({value}) FROM days)"
            assert_same_result(spark, query, fires=None)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_a_subquery_runs_once(spark: SparkSession, adaptive: str) -> None:
    """A query has as many jobs as without filters."""
    both = (
        f"SELECT count(*) FROM f WHERE k >= {LAST} AND id > {LAST} "
        f"UNION ALL SELECT id FROM f WHERE k = {LAST}"
    )
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        calls = []
        for enabled in (False, True):
            with sdf.conf(spark).override(enabled=enabled):
                calls.append(_jobs(spark, both))
        assert calls[0] == calls[1], calls


def _jobs(spark: SparkSession, query: str) -> int:
    """How many jobs a query has; 0 where the client cannot know."""
    try:
        context = spark.sparkContext
    except Exception:
        return 0
    group = f"subqueries-{id(object())}-{query[:10]}-{spark.conf.get('spark.dynamicFilters.enabled')}"
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
            errors = []
            for enabled in (False, True):
                with sdf.conf(spark).override(enabled=enabled), pytest.raises(Exception) as error:  # noqa: PT011
                    spark.sql(query).collect()
                errors.append((type(error.value), getattr(error.value, "getCondition", str)()))
            assert errors[0] == errors[1], query


PLACES = {
    "union": "SELECT id FROM (SELECT k, id FROM f UNION ALL SELECT k, id + 9000 FROM f) WHERE k = {last}",
    "union of types": "SELECT k FROM (SELECT k FROM f UNION ALL SELECT g FROM f) WHERE k = {last}",
    "below a join": "SELECT f.id FROM f JOIN days ON f.g = days.small WHERE f.k = {last}",
    "below a shuffled join": "SELECT /*+ MERGE(a) */ a.id FROM f a JOIN f b ON a.id = b.id "
    "WHERE a.k = {last}",
    "on the preserved side": "SELECT f.id FROM f LEFT JOIN days ON f.g = days.small WHERE f.k > {last}",
    "aggregate": "SELECT k, count(*) FROM f WHERE k > {last} GROUP BY k",
    "TopK": "SELECT id FROM f WHERE k < {last} ORDER BY id DESC LIMIT 5",
    "in a subquery": "SELECT id FROM f WHERE k = (SELECT max(k) FROM f WHERE k <= {last})",
    "in an expression": "SELECT (SELECT sum(id) FROM f WHERE k = {last}) AS n",
    "nested": "SELECT id FROM (SELECT k + 0 AS n, k, id FROM f WHERE k >= {last}) WHERE k < {last} + 10",
    "table expression": "WITH d AS (SELECT max(last) AS x FROM days) SELECT id FROM f "
    "WHERE k = (SELECT x FROM d) AND id > (SELECT x FROM d)",
}


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("place", PLACES)
def test_places(spark: SparkSession, place: str, adaptive: str) -> None:
    with joins.settings(spark, joins.ADAPTIVE[adaptive]):
        query = PLACES[place].format(last=LAST)
        _learned(spark, query)
        result = assert_same_result(spark, query)
        assert _files_pruned(result) > 0, str(result.analysis)


def test_views_and_cached_tables(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW newest AS SELECT * FROM f WHERE k >= {LAST}")
    _assert_files(spark, "SELECT id FROM newest WHERE g = 3", 2)
    spark.sql("CACHE TABLE kept AS SELECT k, id FROM f")
    try:
        result = assert_same_result(spark, f"SELECT id FROM kept WHERE k = {LAST}")
        assert [f["state"] for f in _subqueries(result)] == ["ready"], result.reasons()
    finally:
        spark.sql("DROP VIEW IF EXISTS kept")


def test_a_data_frame_that_runs_twice(spark: SparkSession) -> None:
    df = spark.sql(f"SELECT id FROM f WHERE k = {LAST}")
    first = sorted(r.id for r in df.collect())
    again, report = reported(spark, lambda: sorted(r.id for r in df.collect()))
    assert first == again == [2_600, 2_601]
    assert [f["state"] for f in report.filters if f["producer"] == "subquery"] == ["ready"]


def test_other_formats(spark: SparkSession, tmp_path: Path) -> None:
    spark.table("f").select("k", "id").repartitionByRange(4, "k").write.orc(str(tmp_path / "orc"))
    spark.read.orc(str(tmp_path / "orc")).createOrReplaceTempView("o")
    result = assert_same_result(spark, f"SELECT id FROM o WHERE k = {LAST}", fires=None)
    assert [f["state"] for f in _subqueries(result)] == ["ready"], result.reasons()
    spark.table("f").select("k", "id").write.csv(str(tmp_path / "csv"))
    spark.read.schema("k BIGINT, id BIGINT").csv(str(tmp_path / "csv")).createOrReplaceTempView("c")
    result = assert_same_result(spark, f"SELECT id FROM c WHERE k = {LAST}", fires=False)
    assert "can be filtered by rows only" in result.reasons()[0]


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


def test_correlated_subqueries_are_joins(spark: SparkSession) -> None:
    query = "SELECT id FROM f WHERE k = (SELECT max(last) FROM days WHERE days.small = f.g)"
    result = assert_same_result(spark, query, fires=None)
    assert _subqueries(result) == []
    result = assert_same_result(spark, "SELECT id FROM f WHERE k IN (SELECT last FROM days)")
    assert _subqueries(result) == []


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

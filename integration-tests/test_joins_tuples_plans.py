"""Joins by several keys: which operators tuples pass, and over which tables they prune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import joins, tables, tuples
from support.joins import STRATEGIES, Comparer
from support.tuples import (
    ELSEWHERE,
    HITS,
    MATCHING,
    Pair,
    assert_by_tuples,
    assert_no_tuples,
    columns_of,
    probe,
    tuples_on,
    view,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuples")


@pytest.fixture(scope="module")
def compare(spark: SparkSession, folder: Path) -> Comparer:
    return tuples.compared(spark, folder)


# Queries through whose operators both keys pass together.
PASSES = {
    "projection": "SELECT s.i, b.id FROM (SELECT x_int AS k, y_string AS l, id + 1 AS i, payload FROM p) s "
    "JOIN b ON s.k = b.u_int AND s.l = b.v_string",
    "aggregate": "SELECT s.*, b.id FROM (SELECT x_int, y_string, max(payload) FROM p GROUP BY 2, 1) s "
    "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
    "window": "SELECT s.*, b.id FROM (SELECT x_int, y_string, count(payload) OVER (PARTITION BY x_int, "
    "y_string) FROM p) s JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
    "computed_build": "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int + 1 - 1 "
    "AND p.y_string = concat('key ', b.v_int)",
    "distinct_build": "SELECT p.id, p.payload FROM p JOIN (SELECT DISTINCT u_int, v_string FROM b) b "
    "ON p.x_int = b.u_int AND p.y_string = b.v_string",
}

# Queries with filters of single keys, but operators in the way of tuples: words of the reason.
STOPS = {
    "key_of_the_window_only": (
        "SELECT s.*, b.id FROM (SELECT x_int, y_string, count(payload) OVER (PARTITION BY x_int) FROM p) s "
        "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
        "not partitioned by the key",
    ),
    "aggregate_of_one_key": (
        "SELECT s.*, b.id FROM (SELECT x_int, max(y_string) AS y_string FROM p GROUP BY x_int) s "
        "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
        "does not group by the key",
    ),
    "decimals_of_two_scales": (
        "SELECT p.id, b.id FROM p JOIN b ON p.x_int = b.u_int AND p.y_decimal = b.v_wide_decimal",
        "is computed",
    ),
    "computed_key": (
        "SELECT p.id, b.id FROM p JOIN b ON p.x_int = b.u_int AND upper(p.y_string) = upper(b.v_string)",
        "is computed",
    ),
    "two_scans": (
        "SELECT p.id, q.id, b.id FROM p JOIN q ON p.id = q.id "
        "JOIN b ON p.x_int = b.u_int AND q.n_string = b.v_string",
        "both sides of a join",
    ),
    "nothing_to_gain": (
        "SELECT p.id, p.payload FROM p JOIN every b ON p.x_int = b.u_int AND p.y_string = b.v_string",
        "leave out as much",
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", PASSES)
def test_passes(compare: Comparer, shape: str, strategy: str) -> None:
    result = compare(PASSES[shape], STRATEGIES[strategy])
    assert result.off.rows
    assert_by_tuples(result.on, "x_int", "y_string")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", STOPS)
def test_stops(compare: Comparer, shape: str, strategy: str) -> None:
    query, words = STOPS[shape]
    run = compare(query, STRATEGIES[strategy]).on
    assert_no_tuples(run, words)
    joins.assert_ready(run, "x_int")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_union(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT s.id, s.payload FROM (SELECT x_int AS k, y_string AS l, id, payload FROM p "
        "UNION ALL SELECT m_int, n_string, id, payload FROM q) s JOIN b ON s.k = b.u_int AND s.l = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == 2 * MATCHING
    columns = ("x_int", "y_string", "m_int", "n_string")
    assert_by_tuples(result.on, *columns)
    assert {f["expression"] for f in tuples_on(result.on, *columns)} == {"(x_int, y_string) IN (103 tuples)"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_through_the_equal_keys_of_a_lower_join(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, q.payload, b.id FROM p JOIN q ON p.x_int = q.m_int AND p.y_string = q.n_string "
        "AND p.id = q.id JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert any(f["generation"] for f in result.on.filters if len(f["columns"]) > 1), str(result.on)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_build_side_that_is_reused(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, p.payload, b.id AS i FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string "
        "UNION ALL "
        "SELECT q.id, q.payload, b.id FROM q JOIN b ON q.m_int = b.u_int AND q.n_string = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == 2 * MATCHING
    for scan in result.on.scans:
        assert scan["rows_pruned"] > tables.ROWS / 2, str(result.on)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_dataframe_again(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    with joins.settings(spark, STRATEGIES[strategy]):
        frame = spark.sql(query)
        first = sorted(frame.collect())
        assert len(first) == MATCHING
        assert sorted(frame.collect()) == first
        assert sorted(frame.where("length(payload) > 0").collect()) == first


def test_plans_show_tuples(spark: SparkSession, compare: Comparer) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    with joins.settings(spark, joins.BROADCAST):
        plan = spark.sql("EXPLAIN " + query).collect()[0][0]
        assert "[(x_int, y_string): not known yet]" in plan
        assert "[(u_int, v_string): not known yet]" in plan
    run = compare(query, joins.BROADCAST).on
    count = len({*ELSEWHERE, *HITS})
    assert f"[(x_int, y_string): (x_int, y_string) IN ({count} tuples)]" in run.plan, run.plan
    (shown,) = tuples_on(run, "x_int", "y_string")
    assert shown["expression"] == f"(x_int, y_string) IN ({count} tuples)"
    with joins.settings(spark, {"spark.dynamicFilters.report.showValues": "false"}):
        (hidden,) = tuples_on(joins.run(spark, query), "x_int", "y_string")
        assert hidden["expression"] == "hidden"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partition_column(spark: SparkSession, folder: Path, compare: Comparer, strategy: str) -> None:
    path = folder / f"parts_{strategy}"
    for part in (0, 1, None):
        below = path / f"part={'__HIVE_DEFAULT_PARTITION__' if part is None else part}"
        below.mkdir(parents=True)
        # Low and high values in row groups of their own, and the ends of both in each.
        rows = [y for block in range(10) for y in [0, 99, *(range(50) if block % 2 else range(50, 100))] * 4]
        table = pa.table({"y": pa.array(rows, pa.int32()), "payload": [f"{i:>60}" for i in range(len(rows))]})
        pq.write_table(table, below / "a.parquet", row_group_size=208, write_page_index=True)
    spark.read.parquet(str(path)).createOrReplaceTempView("parts")
    pairs: list[Pair] = [(n // 50, n) for n in range(1, 99)] + [(None, 3), (1, None)]
    view(spark, path.with_name(f"parts_build_{strategy}"), "parts_build", pairs)
    query = "SELECT t.*, b.id FROM parts t JOIN parts_build b ON t.part {} b.u_int AND t.y = b.v_int"
    result = compare(query.format("="), STRATEGIES[strategy])
    assert result.off.rows
    ready = [f for f in tuples_on(result.on, "part", "y") if f["generation"]]
    assert ready, str(result.on)
    assert any(s["row_groups_pruned"] > 0 for s in result.on.scans), str(result.on)
    assert compare(query.format("<=>"), STRATEGIES[strategy]).off.rows


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_file_that_lacks_a_column(
    spark: SparkSession, folder: Path, compare: Comparer, strategy: str
) -> None:
    path = folder / "lacking"
    path.mkdir(exist_ok=True)
    whole = pa.table(columns_of(probe()[:1000], "x", "y"))
    pq.write_table(whole.select(["x_int", "y_int", "y_string"]), path / "a.parquet", row_group_size=200)
    pq.write_table(whole.select(["x_int", "y_string"]), path / "b.parquet", row_group_size=200)
    frame = spark.read.option("mergeSchema", "true").parquet(str(path))
    frame.createOrReplaceTempView("lacking")
    settings = STRATEGIES[strategy]
    for how in ("=", "<=>"):
        query = f"SELECT t.*, b.id FROM lacking t JOIN b ON t.x_int = b.u_int AND t.y_int {how} b.v_int"
        assert compare(query, settings).off.rows


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_topk_over_tuples(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string "
        "ORDER BY p.id DESC LIMIT 4"
    )
    settings = STRATEGIES[strategy]
    assert len(compare(query, settings).off.rows) == 4

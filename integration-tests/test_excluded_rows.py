"""Rows that a filter excludes and that go on to its producer: nothing fails for what they become.

As others are gone, outer joins find no match for them; groups and windows have lost a part of their rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import FOREVER, STRATEGIES, Comparer

pytestmark = pytest.mark.exhaustive

KEYS = 4_000
MAY_FAIL = "may fail if a filter removes rows of a join or group below it"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: looked with all keys k and v above 0; unfiltered (no files) with k; parts, where each key has a
    row of type A and 20 of B; begun, where those of B come first; dim with all keys j."""
    folder = tmp_path_factory.mktemp("excluded")
    keys = pa.array(range(KEYS), pa.int64())
    mixed = [k * 1_663 % KEYS for k in range(KEYS)]
    joins.view(spark, folder, "looked", pa.table({"k": keys, "v": [k % 50 + 1 for k in range(KEYS)]}))
    joins.view(spark, folder, "dim", pa.table({"j": keys, "n": keys}))
    a = pa.table({"k": keys, "type": ["A"] * KEYS, "x": keys})
    many = sorted((k % KEYS for k in range(20 * KEYS)), key=lambda k: k * 7 % 31)
    b = pa.table({"k": pa.array(many, pa.int64()), "type": ["B"] * len(many), "x": many})
    (folder / "parts").mkdir()
    pq.write_table(a, folder / "parts" / "a.parquet", row_group_size=200)
    pq.write_table(b, folder / "parts" / "b.parquet", row_group_size=4_000)
    spark.read.parquet(str(folder / "parts")).createOrReplaceTempView("parts")
    halves = pa.table({"k": mixed * 2, "type": ["B"] * KEYS + ["A"] * KEYS, "x": range(2 * KEYS)})
    pq.write_table(halves, folder / "begun.parquet", row_group_size=400)
    spark.read.parquet(str(folder / "begun.parquet")).createOrReplaceTempView("begun")
    spark.range(KEYS).selectExpr("id * 1663 % 4000 AS k", "id % 3 + 1 AS y").createOrReplaceTempView(
        "unfiltered"
    )
    spark.range(3).selectExpr("id AS key", "id AS z").createOrReplaceTempView("few")
    times = pa.array([k % 7 * 10**11 for k in range(KEYS)], pa.timestamp("us", "UTC"))
    joins.view(spark, folder, "upper", pa.table({"k": keys, "ts": times, "c": ["ABC"] * KEYS}))
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW both AS SELECT /*+ COALESCE(1) */ * FROM (SELECT * FROM upper UNION ALL "
        f"SELECT id % {KEYS}, timestamp_seconds(id % {KEYS} % 7 * 100000 + 200 + 40 * (id DIV {KEYS})), "
        f"'abc' FROM range(0, {6 * KEYS}, 1, 1))"
    )
    return Comparer(spark)


LOST = "(SELECT u.k, u.y, coalesce(l.v, 0) AS n FROM unfiltered u LEFT JOIN looked l ON u.k = l.k)"
GREAT = "IF(y > 0, 9000000000000000000, 1)"
TWICE = "(SELECT k, y FROM unfiltered UNION ALL SELECT k, y FROM unfiltered)"
CHANGED = {
    "single": "SELECT u.k, 100 DIV coalesce(v, 0) AS q FROM "
    "(SELECT u.k, (SELECT max(v) FROM looked l WHERE l.k = u.k) v FROM unfiltered u) u",
    # Spark computes y / n first, as it is asked for twice.
    "shared": "SELECT k, CASE WHEN n > 0 AND y / n > 10 THEN 'x' WHEN n > 0 AND y / n > 5 THEN 'y' END AS q "
    f"FROM {LOST}",
    # Asked of pairs that stock Spark has not.
    "condition": f"SELECT l.k, x.z AS q FROM {LOST} l LEFT JOIN few x ON l.n = x.key AND l.k DIV x.z > -1",
    "many": f"SELECT l.k, x.z AS q FROM {LOST} l JOIN few x ON l.n = x.key",
    # Of rows, or values, that stock Spark has not in any order.
    "sum_of_rows": f"SELECT k, sum(n) AS q FROM (SELECT u.k, {GREAT} AS n FROM {TWICE} u "
    "LEFT ANTI JOIN looked l ON u.k = l.k) GROUP BY k",
    "all_in_memory": "SELECT k, size(collect_list(y)) AS q FROM (SELECT u.k, u.y FROM unfiltered u "
    "LEFT ANTI JOIN looked l ON u.k = l.k) GROUP BY k",
    "no_column": "SELECT u.k, raise_error('lost') AS q FROM unfiltered u LEFT ANTI JOIN looked l "
    "ON u.k = l.k GROUP BY u.k",
    # Keys and sums that depend on all rows, and on which of them come first.
    "session": "SELECT k, 100 DIV (unix_seconds(session_window.end) - unix_seconds(session_window.start) "
    "- 500) AS q FROM both GROUP BY k, session_window(ts, '5 minutes')",
    "collation": "SELECT k, 100 DIV (ascii(c) - 97) AS q FROM "
    "(SELECT k, c COLLATE UTF8_LCASE AS c FROM both) GROUP BY k, c",
    "sum_in_order": "SELECT k, sum(CASE WHEN c = 'ABC' THEN -1 WHEN unix_seconds(ts) % 100000 = 200 THEN "
    "9223372036854775807 WHEN unix_seconds(ts) % 100000 = 240 THEN 1 ELSE 0 END) "
    "OVER (PARTITION BY k ORDER BY ts) AS q FROM both",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", CHANGED)
def test_what_other_rows_would_change_is_not_filtered(compare: Comparer, case: str, strategy: str) -> None:
    query = f"SELECT s.k, s.q FROM ({CHANGED[case]}) s JOIN dim d ON s.k = d.j WHERE d.n IN (77, 99)"
    compare(query, STRATEGIES[strategy], FOREVER, fires=False)


def test_rows_that_lose_their_match_where_nothing_can_fail(compare: Comparer) -> None:
    query = f"SELECT s.k, s.n FROM {LOST} s JOIN dim d ON s.k = d.j WHERE d.n IN (77, 99)"
    joins.assert_row_groups_pruned(compare(query, joins.SHUFFLED).on, "k")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["SEMI", "ANTI"])
def test_conditions_of_matches_that_were_not_looked_at(compare: Comparer, kind: str, strategy: str) -> None:
    """One match is enough: the next one, for which the condition fails, is not asked of in stock Spark."""
    query = (
        f"SELECT s.k FROM (SELECT u.k FROM unfiltered u LEFT {kind} JOIN parts r "
        "ON u.k = r.k AND 100 DIV (r.x - r.x + u.y) > -1) s JOIN dim d ON s.k = d.j WHERE d.n < 200"
    )
    # Spark chooses which side of the join with dim is filtered; parts is not, by the keys of dim.
    run = compare(query, STRATEGIES[strategy], FOREVER, fires=None).on
    assert not any(s["row_groups_pruned"] for s in run.scans if "parts" in s["table_name"]), str(run)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_second_matches_that_stock_spark_has_not(compare: Comparer, strategy: str) -> None:
    """An anti join within a scalar subquery lets rows pass whose match is gone: the subquery has two."""
    query = (
        "SELECT s.k, s.q FROM (SELECT u.k, (SELECT p.x FROM parts p WHERE p.k = u.k AND NOT EXISTS "
        "(SELECT 1 FROM parts b WHERE b.k = p.k AND b.type = p.type AND b.type = 'B')) q "
        "FROM unfiltered u) s JOIN dim d ON s.k = d.j WHERE d.n >= 200"
    )
    # Keys of unfiltered may leave out parts; those of dim may not.
    assert len(compare(query, STRATEGIES[strategy], FOREVER, fires=None).on.rows) == KEYS - 200


OF_GROUPS = {
    "groups": "(SELECT k, {} AS q FROM parts GROUP BY k)",
    "window": "(SELECT DISTINCT k, {} AS q FROM (SELECT k, sum(x) OVER w AS sx, "
    "sum(IF(type = 'A', 1, 0)) OVER w AS sa FROM parts WINDOW w AS (PARTITION BY k)))",
}
FAILING_OF = {"groups": "sum(x) / sum(IF(type = 'A', 1, 0))", "window": "sx / sa"}
SAFE_OF = {"groups": "sum(x) + 0.5D", "window": "sa"}


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", OF_GROUPS)
def test_groups_that_lose_a_part(compare: Comparer, shape: str, strategy: str) -> None:
    query = f"SELECT count(q), sum(q) FROM {OF_GROUPS[shape]} g JOIN dim d ON g.k = d.j WHERE d.n >= 200"
    run = compare(query.format(FAILING_OF[shape]), STRATEGIES[strategy], FOREVER, fires=False).on
    assert run.rows[0][0] == KEYS - 200, str(run)
    assert any(MAY_FAIL in (f["reason"] or "") for f in run.filters), str(run)


@pytest.mark.core
@pytest.mark.parametrize("shape", OF_GROUPS)
def test_groups_that_lose_a_part_where_nothing_can_fail(compare: Comparer, shape: str) -> None:
    query = f"SELECT count(q), sum(q) FROM {OF_GROUPS[shape]} g JOIN dim d ON g.k = d.j WHERE d.n < 200"
    query = query.replace("sum(x) OVER w AS sx, ", "")
    run = compare(query.format(SAFE_OF[shape]), joins.SHUFFLED, FOREVER).on
    joins.assert_row_groups_pruned(run, "k")


@pytest.mark.core
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("direction", ["", "DESC"])
def test_groups_past_the_bound_of_their_topk(compare: Comparer, direction: str, adaptive: str) -> None:
    """Groups that were begun lose the rest of their rows: here all keys have rows of type B first."""
    groups = f"SELECT k, {{}} AS q FROM begun GROUP BY k ORDER BY k {direction} LIMIT 5"
    one_task = {"spark.sql.files.maxPartitionBytes": "64m"}
    failing = groups.format("sum(x) / sum(IF(type = 'A', 1, 0))")
    run = compare(failing, joins.ADAPTIVE[adaptive], one_task, fires=False).on
    assert len(run.rows) == 5
    assert MAY_FAIL in str(run)
    safe = compare(groups.format("count(*)"), joins.ADAPTIVE[adaptive], one_task).on
    assert sum(s["rows_pruned"] for s in safe.scans) > 0, str(safe)


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_topk_in_force_is_not_rejected_when_it_is_planned_again(compare: Comparer, adaptive: str) -> None:
    """Unless the planner looks for the tap in the stage that runs, the TopK gets a second row, which says
    that it makes no filter."""
    query = "SELECT k, count(*) AS q FROM begun GROUP BY k ORDER BY k DESC LIMIT 5"
    run = compare(query, joins.ADAPTIVE[adaptive], {"spark.sql.files.maxPartitionBytes": "64m"}).on
    assert [(f["producer"], f["state"]) for f in run.report.filters] == [("topk", "ready")], str(run)

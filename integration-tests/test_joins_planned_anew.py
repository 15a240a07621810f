"""Joins that adaptive execution turns into broadcasts while scans wait for their filters: the keys of a build
side would then come from a second place, above an aggregate's HAVING, beside or instead of the first one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import FOREVER, SHUFFLED, Comparer

# By its files b1 is too large for a broadcast, and small enough when its keys are there. (Above HAVING, the
# threshold of adaptive execution's own does not count: Spark forgets that the size was measured.)
BECOMES_BROADCAST = {
    "spark.sql.autoBroadcastJoinThreshold": "60k",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.openCostInBytes": "4k",
}
WAITS = "/*+ DYNAMIC_FILTER(f) */"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: facts f with keys x and y; b1, in which each x has a row with w = 0, and every second one two;
    b2 with all y and z; g with all x, each several times, and z."""
    folder = tmp_path_factory.mktemp("anew")

    def view(name: str, parts: list[pa.Table]) -> None:
        (folder / name).mkdir()
        for i, part in enumerate(parts):
            pq.write_table(part, folder / name / f"{i}.parquet", row_group_size=2_500)
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)

    facts, rows = range(100_000), range(40_000)
    payload = [format(i * 7_919, "x").rjust(40, "a") for i in facts]
    columns = {"x": [i % 2_000 for i in facts], "y": [i * 7_919 % 500 for i in facts], "v": list(facts)}
    view("f", [pa.table({**columns, "payload": payload})])
    columns = {"x": [i % 2_000 for i in rows], "z": [i * 31 % 300 for i in rows]}
    view("g", [pa.table({**columns, "payload": payload[:40_000]})])
    counts, padding = [[0, 0, 1, 2, 3], [0, 1, 2, 3]], random.Random(1)

    def narrow(keys: range) -> pa.Table:
        rows = [(x, w) for x in keys for w in counts[x % 2]]
        columns = {"x": [x for x, _ in rows], "w": [w for _, w in rows]}
        return pa.table({**columns, "padding": [padding.randbytes(40).hex() for _ in rows]})

    view("b1", [narrow(range(i * 500, (i + 1) * 500)) for i in range(4)])
    view("b2", [pa.table({"y": range(500), "z": range(500)})])

    joins.register_slow(spark)
    spark.sql("SELECT slow(1, 0.0)").collect()
    return Comparer(spark)


def _narrowed(having: int) -> str:
    return f"(SELECT x FROM b1 WHERE w < 1 AND x % 7 = 0 GROUP BY x HAVING count(*) > {having})"


# In a broadcast, so that the build side has no Python operator itself.
_SLOW = (
    "(SELECT /*+ BROADCAST(s) */ b2.y FROM b2 "
    "LEFT SEMI JOIN (SELECT y FROM b2 WHERE slow(y, 1.5) = y) s ON b2.y = s.y WHERE b2.z < 60)"
)


def _join(having: int) -> str:
    return (
        f"SELECT {WAITS} count(f.v) FROM f JOIN {_narrowed(having)} b1 ON f.x = b1.x "
        f"JOIN {_SLOW} b2 ON f.y = b2.y"
    )


@pytest.mark.processes
@pytest.mark.core
def test_tap_of_a_stage_is_the_only_one(compare: Comparer) -> None:
    """The scan still waits for b2 when b1 becomes a broadcast."""
    run = compare(f"SELECT ({_join(0)}) AS a", BECOMES_BROADCAST, FOREVER).on
    joins.assert_pruned(run, "x")


# The inner aggregate's exchange has ended when the outer one's would be made. Without a condition between
# them, Spark makes one of both.
def _twice_grouped(having: int) -> str:
    grouped = "(SELECT x, w, count(*) AS n FROM b1 WHERE w < 1 AND x % 7 = 0 GROUP BY x, w HAVING n > 0)"
    return f"(SELECT x FROM {grouped} GROUP BY x HAVING sum(n) > {having})"


@pytest.mark.core
@pytest.mark.parametrize("first", [0, 1])
def test_filter_of_two_joins_keeps_the_keys_of_both(compare: Comparer, first: int) -> None:
    """Both joins are made broadcasts before their build sides run, and these are no longer equal there."""
    # Of other columns, or the two scans would be one.
    query = (
        f"SELECT {WAITS} 'a' AS s, count(f.v) FROM f JOIN {_twice_grouped(first)} g ON f.x = g.x UNION ALL "
        f"SELECT {WAITS} 'c' AS s, count(f.y) FROM f JOIN {_twice_grouped(1 - first)} g ON f.x = g.x"
    )
    # Both filters may be given up, and none may have the keys of one place for both.
    run = compare(query, BECOMES_BROADCAST, FOREVER, fires=None).on
    assert len({row[1] for row in run.rows}) == 2


@pytest.mark.core
@pytest.mark.parametrize("first", [0, 1])
def test_filter_whose_build_side_ran_without_a_tap_gets_no_other(compare: Comparer, first: int) -> None:
    """The first subquery makes the exchange of b1, and has no join that would want its keys."""
    alone = f"(SELECT count(*) FROM {_narrowed(5)})"
    query = f"SELECT {alone} AS n, ({_join(first)}) AS a, ({_join(1 - first)}) AS b"
    run = compare(query, BECOMES_BROADCAST, FOREVER, fires=None).on
    assert run.rows[0].a != run.rows[0].b
    # It may be given up, never made of fewer keys: the rows are those without filters.
    assert run.on_column("x"), str(run)


def test_groups_without_a_row_are_planned_away_as_in_stock_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Of what the broadcast would be made of no group is left, and adaptive execution drops the join. It also
    knows by then that a broadcast of the other side would be cheaper, for whose filter that side waits."""
    ids = range(2_000)
    tables = {
        "rows": {"k": [i // 10 for i in ids], "g": [i % 7 for i in ids]},
        "none": {"j": pa.array([None], pa.int64()), "n": [0]},
    }
    for name, columns in tables.items():
        joins.view(spark, tmp_path, name, pa.table(columns))
    query = (
        "WITH c AS (SELECT {} k AS x, count(*) AS v FROM rows GROUP BY k) SELECT a.x, sum(b.v) FROM c a JOIN "
        "(SELECT x, v FROM c WHERE x IN (SELECT j FROM none WHERE n = 0)) b ON a.x = b.x GROUP BY a.x"
    )
    confs = {
        "spark.sql.autoBroadcastJoinThreshold": "20k",
        # What is measured is no reason for a broadcast, what is only expected is one.
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    for hint in ("", "/*+ DYNAMIC_FILTER(rows) */"):
        with joins.settings(spark, confs, FOREVER):
            run = joins.run(spark, query.format(hint))
        assert run.rows == []
        joins.assert_ready(run, "k")
        assert "EmptyRelation" in run.plan, str(run)
        assert run.seconds < 30, str(run)


def test_join_that_was_rejected_before_its_build_side_was_known_to_be_small(compare: Comparer) -> None:
    """The groups are expected to be more than the rows of g, and are known to be few before their keys are
    exchanged. The scan of g is not submitted by then: its broadcast takes long. Unless the first verdict is
    taken back, it stands in the report beside the filter that is in force."""
    groups = "(SELECT x, max(y) AS m FROM f WHERE abs(v % 1000 - 7) < 1 GROUP BY x)"
    late = "(SELECT z FROM b2 WHERE slow(y, 4.0) >= 0)"
    probe = f"(SELECT /*+ BROADCAST(d) */ g.x, g.z FROM g JOIN {late} d ON g.z = d.z)"
    query = f"SELECT a.x, a.m, b.z FROM {groups} a LEFT JOIN {probe} b ON a.m = b.x"
    run = compare(query, SHUFFLED, {"spark.sql.files.openCostInBytes": "4k"}).on
    joins.assert_ready(run, "x")
    # What is rejected has the name of the join's left key.
    assert not run.on_column("m"), str(run)

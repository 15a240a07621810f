"""The hints `DYNAMIC_FILTER` and `NO_DYNAMIC_FILTER`: which scans they are for, and that none gets lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from spark_dynamic_filters import analyze
from spark_dynamic_filters.testing import SameResult
from support import joins, tables
from support.checks import Check, cases
from support.joins import SHUFFLED, settings

pytestmark = pytest.mark.client

AVOIDED = "the hint NO_DYNAMIC_FILTER is on the table"


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession, t: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("hints")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build(joins.within_row_group(3)))
    joins.view(spark, folder, "many", joins.build(i // 2 for i in range(tables.ROWS * 2)))
    spark.sql("DROP TABLE IF EXISTS log")
    spark.sql("CREATE TABLE log USING parquet AS SELECT id, grp FROM t")
    yield
    spark.sql("DROP TABLE log")


def _assert_avoided(result: SameResult) -> None:
    assert result.scans == [], result.analysis
    assert AVOIDED in result.reasons(), result.analysis


# TopKs whose filter the hint keeps from the scan. `HintsSuite` has aliases, whole blocks, both hints at once,
# one of two uses of a table, and plans that the optimizer has changed.
AVOIDING = {
    "table": "SELECT /*+ NO_DYNAMIC_FILTER(t) */ * FROM t ORDER BY id LIMIT 5",
    "string": "SELECT /*+ NO_DYNAMIC_FILTER('t') */ * FROM t ORDER BY id LIMIT 5",
    "comments": "SELECT /*+ NO_DYNAMIC_FILTER(t) */ /*+ DYNAMIC_FILTER(t) */ id FROM t ORDER BY 1 LIMIT 5",
    "qualified": "SELECT /*+ NO_DYNAMIC_FILTER(default.log) */ * FROM default.log ORDER BY id LIMIT 5",
    "end": "SELECT /*+ NO_DYNAMIC_FILTER(log) */ id FROM spark_catalog.default.log ORDER BY 1 LIMIT 5",
    "derived table": "SELECT /*+ NO_DYNAMIC_FILTER(q) */ * FROM (SELECT id, grp FROM t WHERE grp > 2) q "
    "ORDER BY id LIMIT 5",
    "within a derived table": "SELECT * FROM (SELECT /*+ NO_DYNAMIC_FILTER(t) */ id, grp FROM t "
    "WHERE grp > 2) ORDER BY id LIMIT 5",
    "within a table expression": "WITH q AS (SELECT /*+ NO_DYNAMIC_FILTER */ id, grp FROM t) "
    "SELECT * FROM q ORDER BY id LIMIT 5",
    "scalar subquery": "SELECT /*+ NO_DYNAMIC_FILTER */ count(*) FROM log WHERE id <= "
    "(SELECT max(id) FROM (SELECT id FROM t ORDER BY id LIMIT 9))",
    "within a subquery": "SELECT count(*) FROM log WHERE id % 9999 <= (SELECT max(id) FROM "
    "(SELECT /*+ NO_DYNAMIC_FILTER(t) */ id FROM t ORDER BY id LIMIT 9))",
    "beside a join's hint": "SELECT /*+ BROADCAST(d), NO_DYNAMIC_FILTER(t) */ t.id, d.x FROM t JOIN "
    "(SELECT id AS x FROM range(5)) d ON t.grp = d.x ORDER BY t.id LIMIT 5",
    "union": "SELECT id FROM (SELECT /*+ NO_DYNAMIC_FILTER */ id FROM t UNION ALL "
    "SELECT /*+ NO_DYNAMIC_FILTER(log) */ id + 0 FROM log) ORDER BY id LIMIT 5",
}


@pytest.mark.parametrize("case", cases(AVOIDING, ("table", "derived table")))
@pytest.mark.core
def test_no_dynamic_filter(same_twice: Check, case: str) -> None:
    _assert_avoided(same_twice(AVOIDING[case], fires=False))


@pytest.mark.core
def test_data_frames(spark: SparkSession, all_types_path: Path, same_twice: Check) -> None:
    files = spark.read.parquet(str(all_types_path))
    top = files.orderBy("id").limit(5)
    same_twice(top)
    for avoiding in (
        files.hint("NO_DYNAMIC_FILTER").orderBy("id").limit(5),
        top.hint("no_dynamic_filter"),
        files.alias("a").hint("NO_DYNAMIC_FILTER", "a").orderBy("id").limit(5),
        spark.table("log").hint("NO_DYNAMIC_FILTER", "log").orderBy("id").limit(5),
    ):
        _assert_avoided(same_twice(avoiding, fires=False))


def test_views(spark: SparkSession, same_twice: Check) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW sees_all AS SELECT * FROM log")
    spark.sql("CREATE OR REPLACE TEMP VIEW hinted AS SELECT /*+ NO_DYNAMIC_FILTER(log) */ * FROM log")
    spark.sql("CREATE OR REPLACE VIEW stored AS SELECT * FROM log WHERE id IN (SELECT id FROM log)")
    try:
        same_twice("SELECT * FROM sees_all ORDER BY id LIMIT 5")
        _assert_avoided(same_twice("SELECT * FROM hinted ORDER BY id LIMIT 5", fires=False))
        for name in ("sees_all", "stored"):
            hint = f"/*+ NO_DYNAMIC_FILTER({name}) */"
            _assert_avoided(same_twice(f"SELECT {hint} * FROM {name} ORDER BY id LIMIT 5", fires=False))
        # A view is named as a whole; what is inside has no name outside.
        same_twice("SELECT /*+ NO_DYNAMIC_FILTER(log) */ * FROM sees_all ORDER BY id LIMIT 5")
    finally:
        spark.sql("DROP VIEW IF EXISTS stored")


@pytest.mark.client
def test_an_unknown_name_is_reported(spark: SparkSession, same_twice: Check) -> None:
    same_twice("SELECT /*+ NO_DYNAMIC_FILTER(nobody) */ * FROM t ORDER BY id LIMIT 5")
    files = spark.table("t").limit(5)
    for df in (
        spark.sql("SELECT /*+ DYNAMIC_FILTER(nobody, t) */ * FROM t"),
        files.hint("DYNAMIC_FILTER", "nobody"),
    ):
        assert analyze(df).reasons() == ["a hint names tables that are not in its query block: nobody"]
    # `df.hint` leaves `df` as it is.
    assert analyze(files).reasons() == []
    # With an alias the name itself is not seen any more, as in Spark's own hints.
    same_twice("SELECT /*+ NO_DYNAMIC_FILTER(t) */ * FROM t AS a ORDER BY id LIMIT 5")


def test_hints_switched_off_by_spark(spark: SparkSession, same_twice: Check) -> None:
    with settings(spark, {"spark.sql.optimizer.disableHints": "true"}):
        same_twice(AVOIDING["table"])


def test_a_hinted_query_finds_the_cache(spark: SparkSession) -> None:
    cached = spark.sql("SELECT id, grp FROM log").cache()
    try:
        cached.count()
        for hint in ("", "/*+ NO_DYNAMIC_FILTER(log) */", "/*+ DYNAMIC_FILTER */"):
            analysis = analyze(spark.sql(f"SELECT {hint} id, grp FROM log"))
            assert "InMemoryTableScan" in analysis.plan
    finally:
        cached.unpersist()


def test_joins_and_correlated_subqueries(spark: SparkSession, same_twice: Check) -> None:
    exists = "SELECT {} id FROM p WHERE EXISTS (SELECT * FROM few WHERE few.j = p.k AND few.n > 3)"
    join = "SELECT {} p.id, few.n FROM p JOIN few ON p.k = few.j"
    with settings(spark, SHUFFLED):
        same_twice(join.format(""))
        same_twice(exists.format("/*+ DYNAMIC_FILTER */"))
        for query, hint in ((join, "NO_DYNAMIC_FILTER(few, p)"), (exists, "NO_DYNAMIC_FILTER")):
            _assert_avoided(same_twice(query.format(f"/*+ {hint} */"), fires=False))
        # What is within the subquery has a name of its own.
        same_twice(exists.format("").replace("SELECT *", "SELECT /*+ NO_DYNAMIC_FILTER */ *"))


def _join_filter(result: SameResult) -> Row:
    return next(f for f in result.filters if f["producer"] == "join")


def test_dynamic_filter_overrides_estimates(spark: SparkSession, same_twice: Check) -> None:
    # The build side has more rows than the probe side, and no condition.
    query = "SELECT {} p.id FROM p JOIN many ON p.k = many.j WHERE p.id >= 0"
    with settings(spark, SHUFFLED):
        plain = same_twice(query.format(""))
        assert "k" not in _join_filter(plain)["columns"] or _join_filter(plain)["state"] == "disabled"
        forced = same_twice(query.format("/*+ DYNAMIC_FILTER(p) */"))
        assert _join_filter(forced)["columns"] == ["k"]
        assert _join_filter(forced)["state"] == "ready"
        # Correctness is not overridden: every row of the left side is needed.
        outer = query.format("/*+ DYNAMIC_FILTER(p) */").replace("JOIN", "LEFT JOIN")
        kept = same_twice(outer)
        assert "k" not in [c for f in kept.filters if f["state"] != "disabled" for c in f["columns"]]


def test_dynamic_filter_does_not_override_switches(spark: SparkSession, same_twice: Check) -> None:
    query = "SELECT /*+ DYNAMIC_FILTER(t) */ * FROM t ORDER BY id LIMIT 5"
    same_twice(query)
    with settings(spark, {"spark.dynamicFilters.topk.enabled": "false"}):
        assert not analyze(spark.sql(query)).scans
    with settings(spark, {"spark.dynamicFilters.enabled": "false"}):
        plan = analyze(spark.sql(query)).plan
        assert "DynamicFilter" not in plan
        assert "dynamicfilters" not in plan

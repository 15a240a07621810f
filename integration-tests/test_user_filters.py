"""User filters: forms and places, in all kinds of sessions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins
from support.user_filters import assert_in_scan, expected, ids, reported, users

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]


@pytest.mark.core
def test_generations(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    df = spark.table(t).where(f.matches("seq"))
    assert f.generation == 0
    assert df.count() == 4_000
    steps: list[tuple[sdf.Form, list[int], str]] = [
        (sdf.between(10, 12), [10, 11, 12], "range"),
        (sdf.isin([1, 2, 3_000]), [1, 2, 3_000], "range+in"),
        (sdf.bloom([7, 3_900], fpp=1e-6), [7, 3_900], "range+bloom"),
        (sdf.isin([5, 6, 300]) & sdf.between(None, 100), [5, 6], "range"),
        (sdf.nothing(), [], "nothing"),
    ]
    for number, (form, rows, name) in enumerate(steps, start=1):
        f.update(form)
        # The same DataFrame each time: it was planned before.
        found, report = reported(spark, lambda: sorted(r.seq for r in df.collect()))
        assert found == rows
        assert [(u["form"], u["generation"]) for u in users(report)] == [(name, number)]
        assert_in_scan(report)
        assert any(s["row_groups_pruned"] or s["files_pruned"] for s in report.scans), report.scans
        assert df.count() == len(rows)
    snapshot = f.snapshot()
    assert (snapshot.name, snapshot.type, snapshot.generation) == ("wanted", "bigint", 5)
    assert (snapshot.form, snapshot.expression) == ("nothing", "false")
    f.update(sdf.everything())
    assert df.count() == 4_000


@pytest.mark.core
def test_bitmap_and_its_snapshot(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    pytest.importorskip("pyroaring")
    f.update(sdf.bitmap([0, 17, 2_222, 1 << 40]))
    found, report = reported(spark, lambda: ids(spark.table(t).where(f.matches("seq")), "seq"))
    assert found == [0, 17, 2_222]
    assert_in_scan(report, "range+bitmap")
    snapshot = f.snapshot()
    assert snapshot.values == 4
    assert snapshot.expression == "0 <= wanted <= 1099511627776 AND wanted IN (bitmap of 4 values)"
    assert snapshot.size_bytes > 0


@pytest.mark.core
def test_sql_and_any_place_of_a_condition(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.isin([3, 4, 700]))
    for text in (
        "SELECT id FROM {t} WHERE {seq}",
        "SELECT id FROM {t} WHERE NOT ({seq} AND grp = 3)",
        "SELECT id FROM {t} WHERE CASE WHEN grp = 3 THEN {seq} ELSE seq = 5 END",
        "SELECT id FROM {t} WHERE ({seq}) = (grp < 5)",
        "SELECT m, count(*) FROM (SELECT {seq} AS m FROM {t}) GROUP BY m",
        "SELECT a.id FROM {t} a JOIN {t} b ON a.seq = b.seq AND {a_seq}",
        "SELECT a.id, b.id AS other FROM {t} a LEFT JOIN {t} b ON a.seq = b.seq AND {b_seq}",
        "SELECT id FROM {t} WHERE seq IN (SELECT seq FROM {t} WHERE {seq})",
        "WITH c AS (SELECT * FROM {t} WHERE {seq}) SELECT (SELECT max(seq) FROM c), count(*) FROM c",
    ):
        found = []
        for condition in ("dynamic_filter('wanted', {})", "{} IN (3, 4, 700)"):
            names = {name: condition.format(name.replace("_", ".")) for name in ("seq", "a_seq", "b_seq")}
            found.append(Counter(spark.sql(text.format(t=t, **names)).collect()))
        assert found[0] == found[1], text


def test_an_update_is_seen_whatever_the_plan_keeps(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    """Spark keeps shuffle files, broadcasts and RDDs of a DataFrame that was run before.

    The optimizer removes literal rows of which none passes. Then the plan does not show that it had a filter.
    Without adaptive execution the root of a plan may be an exchange.
    """
    condition = "dynamic_filter('wanted', seq)"
    queries = {
        "shuffle": f"SELECT grp, count(*) AS n FROM {t} WHERE {condition} GROUP BY grp",
        "broadcast": f"SELECT /*+ BROADCAST(b) */ count(*) AS n FROM {t} a JOIN {t} b ON a.seq = b.seq "
        "WHERE dynamic_filter('wanted', b.seq)",
        "subquery": f"SELECT (SELECT count(*) FROM {t} WHERE {condition}) AS n",
        "union": f"SELECT count(*) AS n FROM (SELECT seq FROM {t} WHERE {condition} UNION ALL "
        f"SELECT id FROM {t} WHERE {condition})",
        "rows of the query": f"SELECT count(*) AS n FROM VALUES (1), (2), (3) v(seq) WHERE {condition}",
        "rows of a subquery": "SELECT (SELECT count(*) FROM VALUES (1), (2), (3) v(seq) "
        f"WHERE {condition}) AS n",
        "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3 "
        "AND dynamic_filter('wanted', n)) SELECT count(*) AS n FROM r",
        "window": f"SELECT n FROM (SELECT count(*) OVER () AS n FROM {t} WHERE {condition} LIMIT 1)",
        "rows beside others": f"SELECT 0 AS n FROM {t} UNION ALL "
        f"SELECT 1 FROM VALUES (1), (2), (3), (7) v(seq) WHERE {condition}",
        "exchange": f"SELECT /*+ REPARTITION(3) */ 1 AS n FROM {t} WHERE {condition}",
    }
    # Interpreted expressions bring the plans of their subqueries into tasks.
    interpreted = ("shuffle", "broadcast", "subquery", "rows of a subquery", "exchange")
    for adaptive, code, names in (("true", "FALLBACK", tuple(queries)), ("false", "NO_CODEGEN", interpreted)):
        modes = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.codegen.factoryMode": code}
        with joins.settings(spark, modes):
            frames = {name: spark.sql(queries[name]) for name in names}
            for form, values in ((sdf.isin([5_000]), 0), (sdf.isin([1, 2, 3]), 3), (sdf.isin([2]), 1)):
                f.update(form)
                for name, df in frames.items():
                    # A recursion has its first row in any case.
                    wanted = {"union": values * 2, "recursion": max(1, values)}.get(name, values)
                    assert sum(r.n for r in df.collect()) == wanted, (name, adaptive, code)
                assert sum(frames["shuffle"].toPandas().n) == values
                assert sum(r.n for r in frames["shuffle"].toLocalIterator()) == values


def test_an_update_is_seen_where_a_source_keeps_the_condition(
    spark: SparkSession, f: sdf.UserFilter, tmp_path: Path
) -> None:
    """Spark's file sources of DataSource V2 take conditions on partitions out of the plan."""
    table = spark.range(8).selectExpr("id", "id % 4 AS part")
    table.write.partitionBy("part").parquet(str(tmp_path / "parts"))
    with joins.settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        df = spark.read.parquet(str(tmp_path / "parts")).where(f.matches("part")).select("id")
        for part in (1, 2):
            f.update(sdf.isin([part]))
            assert sorted(r.id for r in df.collect()) == [part, part + 4]


def test_cached_data_belongs_to_its_generation(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.isin([1, 2]))
    df = spark.table(t).where(f.matches("seq")).cache()
    try:
        assert df.count() == 2
        assert len(df.collect()) == 2
        f.update(sdf.isin([1, 2, 3]))
        assert df.count() == 3
        assert len(df.collect()) == 3
        assert df.where("seq > 1").count() == 2
    finally:
        df.unpersist()


def test_views_and_writes_see_the_newest(
    spark: SparkSession, t: str, f: sdf.UserFilter, tmp_path: Path
) -> None:
    df = spark.table(t).where(f.matches("seq"))
    df.createOrReplaceTempView("wanted_rows")
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW wanted_too AS SELECT * FROM {t} WHERE dynamic_filter('wanted', seq)"
    )
    for number in (3, 1):
        f.update(sdf.between(1, number))
        assert spark.sql("SELECT count(*) FROM wanted_rows").head()[0] == number
        assert spark.table("wanted_too").count() == number
        df.select("id").write.mode("overwrite").parquet(str(tmp_path / "out"))
        assert spark.read.parquet(str(tmp_path / "out")).count() == number
        assert len(df.head(10)) == number
        assert df.limit(2).count() == min(number, 2)
        assert len(df.tail(10)) == number
    spark.catalog.dropTempView("wanted_rows")
    spark.catalog.dropTempView("wanted_too")


def test_other_sources_work_by_rows(spark: SparkSession, t: str, f: sdf.UserFilter, tmp_path: Path) -> None:
    """`test_other_formats` has those of files."""
    table = spark.table(t).select("id", "seq", "grp")
    table.write.partitionBy("grp").parquet(str(tmp_path / "parts"))
    cached = table.cache()
    f.update(sdf.isin([5, 6, 3_000]))
    try:
        for df in (spark.range(4_000).selectExpr("id", "id AS seq"), cached):
            for condition in (f.matches("seq"), f.prunes("seq")):
                found, report = reported(spark, lambda df=df, c=condition: ids(df.where(c), "seq"))
                assert found == [5, 6, 3_000]
                # The cache leaves out batches.
                reason = users(report)[0]["reason"]
                assert not reason if df is cached else "itself skips nothing" in reason
    finally:
        cached.unpersist()
    # A partition column: whole files are left out. Of another integer type than the filter.
    parts = spark.read.parquet(str(tmp_path / "parts"))
    found, report = reported(spark, lambda: ids(parts.where(f.matches("grp"))))
    assert found == expected(parts, "grp IN (5, 6, 3000)")
    assert users(report)


def test_scans_of_queries_of_all_shapes(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.between(100, 140))
    for query in (
        "SELECT id FROM {t} WHERE {c} AND grp = 3",
        "SELECT id FROM {t} WHERE {c} ORDER BY c_bigint LIMIT 7",
        "SELECT max(id) AS id FROM {t} WHERE {c} GROUP BY grp",
        "SELECT a.id FROM {t} a JOIN {t} b ON a.seq = b.seq WHERE dynamic_filter('wanted', a.seq)",
        "SELECT id FROM (SELECT id, seq, max(id) OVER (PARTITION BY seq) FROM {t}) WHERE {c}",
        "SELECT id FROM (SELECT id, seq FROM {t} UNION ALL SELECT id, seq FROM {t}) WHERE {c}",
    ):
        text = query.format(t=t, c="dynamic_filter('wanted', seq)")
        df = spark.sql(text)
        found, report = reported(spark, lambda df=df: ids(df))
        with sdf.conf(spark).override(enabled=False):
            assert found == ids(df), text
        assert_in_scan(report, "range")


@pytest.mark.core
def test_prunes(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.isin([10, 20, 3_500]))
    df = spark.table(t).where(f.prunes("seq"))
    found, report = reported(spark, lambda: ids(df, "seq"))
    assert set(found) >= {10, 20, 3_500}
    assert_in_scan(report, "range+in")
    # A bound counts rows, which have to come again when a task is retried.
    best, report = reported(spark, lambda: df.orderBy("seq").limit(2).collect())
    assert [r.seq for r in best] == [10, 20]
    reasons = [r["reason"] for r in report.filters if r["producer"] == "topk"]
    assert reasons == ["an update of a user filter (prunes) may change the scan's rows while the query runs"]
    in_sql = spark.sql(f"SELECT seq FROM {t} WHERE dynamic_filter_prune('wanted', seq) AND grp < 100")
    assert set(ids(in_sql, "seq")) >= {10, 20, 3_500}


def test_prunes_drops_rows_where_nothing_else_is_read(
    spark: SparkSession, f: sdf.UserFilter, tmp_path: Path
) -> None:
    # Each row group has a row that is wanted, and skipping the others spares no bytes: only rows that the
    # operators above need not see.
    spark.range(20_000).write.option("parquet.block.row.count.limit", "1000").parquet(str(tmp_path / "ids"))
    wanted = list(range(0, 20_000, 500))
    f.update(sdf.isin(wanted))
    df = spark.read.parquet(str(tmp_path / "ids")).where(f.prunes("id"))
    found, report = reported(spark, lambda: df.selectExpr("count(*)", "sum(hash(id))").collect()[0][0])
    assert len(wanted) <= found < 2_000
    assert_in_scan(report)


def test_prunes_is_refused_where_it_would_change_answers(
    spark: SparkSession, t: str, f: sdf.UserFilter
) -> None:
    condition = "dynamic_filter_prune('wanted', seq)"
    for text in (
        "SELECT * FROM {t} WHERE grp = 1 OR {c}",
        "SELECT {c} FROM {t}",
        "SELECT * FROM {t} WHERE CASE WHEN grp = 1 THEN {c} ELSE true END",
        "SELECT * FROM {t} a LEFT JOIN (SELECT id i, seq FROM {t}) b ON a.id = i AND {b}",
        "SELECT * FROM {t} WHERE id IN (SELECT id FROM {t} WHERE NOT {c})",
    ):
        query = text.format(t=t, c=condition, b=condition.replace("seq", "b.seq"))
        with pytest.raises(Exception, match=r"filter 'wanted' .*dynamic_filter can stand anywhere"):
            spark.sql(query).schema  # noqa: B018


def test_plans_show_the_filter(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.between(5, 9))
    df = spark.table(t).where(f.matches("seq"))
    analysis = str(sdf.analyze(df))
    assert "[seq: 5 <= seq <= 9]" in analysis
    assert "dynamic_filter(wanted generation 1" in analysis
    with sdf.conf(spark).override(**{"report.showValues": False}):
        assert "5 <=" not in str(sdf.analyze(df))
        assert f.snapshot().expression == "hidden"


def test_large_sets_travel(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    """Above what a task carries with it, and above one message."""
    f.update(sdf.isin(range(0, 4_000_000, 2)))
    found, report = reported(spark, lambda: ids(spark.table(t).where(f.matches("seq")), "seq"))
    assert found == list(range(0, 4_000, 2))
    assert users(report)[0]["form"] == "range+bitmap"
    with sdf.create_filter(spark, "texts", "string") as texts:
        texts.update(sdf.isin([f"{i:09d}" for i in range(200_000)] + ["a"]))
        table = spark.table(t)
        assert ids(table.where(texts.matches("c_string"))) == expected(table, "c_string = 'a'")

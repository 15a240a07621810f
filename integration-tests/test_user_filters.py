"""User filters: forms, types and places, in all kinds of sessions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import spark_dynamic_filters as sdf
from support import joins
from support.user_filters import (
    assert_in_scan,
    expected,
    ids,
    reported,
    row_groups_pruned,
    users,
    without_filters,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]


@pytest.fixture
def f(spark: SparkSession) -> Iterator[sdf.UserFilter]:
    """A filter for `seq` of `t`, which ascends from 0 to 3999."""
    with sdf.create_filter(spark, "wanted", "bigint") as made:
        yield made


def _bitmap(*values: int) -> sdf.Form:
    pyroaring = pytest.importorskip("pyroaring")
    return sdf.bitmap(pyroaring.BitMap64(values))


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
        assert row_groups_pruned(report) > 0
        assert df.count() == len(rows)
    snapshot = f.snapshot()
    assert (snapshot.name, snapshot.type, snapshot.generation) == ("wanted", "bigint", 5)
    assert (snapshot.form, snapshot.expression) == ("nothing", "false")
    f.update(sdf.everything())
    assert df.count() == 4_000


@pytest.mark.core
def test_bitmap_and_its_snapshot(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(_bitmap(0, 17, 2_222, 1 << 40))
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
    condition = "dynamic_filter('wanted', seq)"
    plain = "seq IN (3, 4, 700)"
    table = spark.table(t)
    for text in (
        "{}",
        "NOT {}",
        "{} OR grp = 3",
        "NOT ({} AND grp = 3)",
        "CASE WHEN grp = 3 THEN {} ELSE seq = 5 END",
        "({}) = (grp < 5)",
    ):
        assert ids(table.where(text.format(condition))) == expected(table, text.format(plain)), text
    counted = table.groupBy(f.matches("seq").alias("m")).count().collect()
    assert {r.m: r["count"] for r in counted} == {True: 3, False: 3_997}
    joined = spark.sql(
        f"SELECT a.id FROM {t} a JOIN {t} b ON a.seq = b.seq AND dynamic_filter('wanted', a.seq) ORDER BY 1"
    )
    assert [r.id for r in joined.collect()] == expected(table, plain)
    outer = spark.sql(
        f"SELECT a.id, b.id AS other FROM {t} a LEFT JOIN {t} b "
        "ON a.seq = b.seq AND dynamic_filter('wanted', b.seq)"
    )
    assert sum(r.other is not None for r in outer.collect()) == 3
    sub = spark.sql(f"SELECT id FROM {t} WHERE seq IN (SELECT seq FROM {t} WHERE {condition})")
    assert ids(sub) == expected(table, plain)
    scalar = spark.sql(
        f"WITH c AS (SELECT * FROM {t} WHERE {condition}) SELECT (SELECT max(seq) FROM c), count(*) FROM c"
    )
    assert tuple(scalar.collect()[0]) == (700, 3)


def test_an_update_is_seen_whatever_the_plan_keeps(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    """Spark keeps shuffle files, broadcasts and RDDs of a DataFrame that was run before."""
    condition = "dynamic_filter('wanted', seq)"
    queries = {
        "shuffle": f"SELECT grp, count(*) AS n FROM {t} WHERE {condition} GROUP BY grp",
        "broadcast": f"SELECT /*+ BROADCAST(b) */ count(*) AS n FROM {t} a JOIN {t} b ON a.seq = b.seq "
        "WHERE dynamic_filter('wanted', b.seq)",
        "subquery": f"SELECT (SELECT count(*) FROM {t} WHERE {condition}) AS n",
        "union": f"SELECT count(*) AS n FROM (SELECT seq FROM {t} WHERE {condition} UNION ALL "
        f"SELECT id FROM {t} WHERE {condition})",
        "rows of the query": f"SELECT count(*) AS n FROM VALUES (1), (2), (3) v(seq) WHERE {condition}",
        "window": f"SELECT n FROM (SELECT count(*) OVER () AS n FROM {t} WHERE {condition} LIMIT 1)",
    }
    # Interpreted expressions bring the plans of their subqueries into tasks.
    for adaptive, code in (("true", "FALLBACK"), ("false", "FALLBACK"), ("true", "NO_CODEGEN")):
        modes = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.codegen.factoryMode": code}
        with joins.settings(spark, modes):
            frames = {name: spark.sql(text) for name, text in queries.items()}
            for form, values in ((sdf.isin([1, 2, 3]), 3), (sdf.isin([2]), 1)):
                f.update(form)
                for name, df in frames.items():
                    runs = ("collect", "toPandas", "toLocalIterator") if name == "shuffle" else ("collect",)
                    for run in runs:
                        rows = df.toPandas().n if run == "toPandas" else [r.n for r in getattr(df, run)()]
                        wanted = values * 2 if name == "union" else values
                        assert sum(rows) == wanted, (name, run, adaptive, code)


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
    for number in (1, 2, 3):
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
    table = spark.table(t).select("id", "seq", "grp")
    table.write.csv(str(tmp_path / "csv"), header=True)
    table.write.orc(str(tmp_path / "orc"))
    table.write.partitionBy("grp").parquet(str(tmp_path / "parts"))
    cached = table.cache()
    sources: dict[str, DataFrame] = {
        "csv": spark.read.csv(str(tmp_path / "csv"), header=True, schema="id BIGINT, seq BIGINT, grp INT"),
        "orc": spark.read.orc(str(tmp_path / "orc")),
        "rows": spark.range(4_000).selectExpr("id", "id AS seq"),
        "cached": cached,
    }
    f.update(sdf.isin([5, 6, 3_000]))
    try:
        for name, df in sources.items():
            for condition in (f.matches("seq"), f.prunes("seq")):
                found, report = reported(spark, lambda df=df, c=condition: ids(df.where(c), "seq"))
                assert found == [5, 6, 3_000], name
                reason = users(report)[0]["reason"]
                # ORC leaves out row groups by its own statistics, the cache batches.
                assert not reason if name in ("orc", "cached") else "above the scan" in reason, name
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
        assert found == without_filters(spark, df), text
        assert_in_scan(report, "range")


CASES: dict[str, tuple[str, Any]] = {
    "c_boolean": ("boolean", [True]),
    "c_tinyint": ("tinyint", [-5, 0, 7]),
    "c_smallint": ("smallint", None),
    "c_int": ("int", None),
    "c_bigint": ("bigint", None),
    "c_decimal_int": ("decimal(7,2)", None),
    "c_decimal_long": ("decimal(15,4)", None),
    "c_decimal_big": ("decimal(30,6)", None),
    "c_float": ("float", [float("nan"), 0.0, float("inf")]),
    "c_double": ("double", [float("nan"), -0.0, float("inf")]),
    "c_string": ("string", None),
    "c_binary": ("binary", None),
    "c_date": ("date", None),
    "c_timestamp_ntz": ("timestamp_ntz", None),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("column", CASES)
def test_types(spark: SparkSession, t: str, column: str) -> None:
    kind, values = CASES[column]
    table = spark.table(t)
    if values is None:
        some = table.where(f"{column} IS NOT NULL AND id % 97 = 0").select(column).limit(5).collect()
        values = [r[0] for r in some]
    with sdf.create_filter(spark, f"of {column}'s type", kind) as f:
        plain = table.where(table[column].isin(values)) if kind != "binary" else None
        for form in (sdf.isin(values), sdf.bloom(values, fpp=1e-9)):
            f.update(form)
            df = table.where(f.matches(column))
            found = ids(df)
            assert found
            assert found == (ids(plain) if plain is not None else without_filters(spark, df))
        # Two-valued: what does not match, NULL included, is the rest.
        assert len(found) + table.where(~f.matches(column)).count() == 4_000
        f.update(sdf.isin([*values, None]))
        nulls = table.where(table[column].isNull()).count()
        assert table.where(f.matches(column)).count() == len(found) + nulls
        if kind not in ("binary", "boolean", "float", "double"):
            low, high = min(values), max(values)
            f.update(sdf.between(low, high))
            assert ids(table.where(f.matches(column))) == ids(table.where(table[column].between(low, high)))


def test_timestamps(spark: SparkSession, t: str) -> None:
    moment = dt.datetime(1980, 5, 5, tzinfo=dt.UTC)
    with sdf.create_filter(spark, "since", "timestamp") as f:
        f.update(sdf.between(moment, None))
        df = spark.table(t).where(f.matches("c_timestamp"))
        assert ids(df) == expected(spark.table(t), "c_timestamp >= TIMESTAMP'1980-05-05 00:00:00Z'")


def test_integers_of_other_widths(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    table = spark.table(t)
    f.update(sdf.isin([1, 5, 1 << 40, -1]))
    found, report = reported(spark, lambda: ids(table.where(f.matches("c_tinyint"))))
    assert found == expected(table, "c_tinyint IN (1, 5, -1)")
    assert users(report)[0]["reason"] is None
    assert ids(table.where("dynamic_filter('wanted', cast(grp as smallint))")) == expected(
        table, "grp IN (1, 5)"
    )
    assert spark.sql("SELECT dynamic_filter('wanted', 5), dynamic_filter('wanted', NULL)").head() == (
        True,
        False,
    )
    with sdf.create_filter(spark, "small", "tinyint") as small:
        small.update(sdf.isin([1, 5]))
        assert ids(table.where(small.matches("seq")), "seq") == [1, 5]


def test_whole_floats_are_integers(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    """As pandas has them: a column of integers with missing values is one of floats."""
    table = spark.table(t)
    f.update(sdf.isin(pd.Series([1, 5, None]).dropna()))
    assert ids(table.where(f.matches("seq")), "seq") == [1, 5]
    f.update(sdf.between(1.0, 3.0))
    assert ids(table.where(f.matches("seq")), "seq") == [1, 2, 3]
    f.update(sdf.isin(pd.Series([1, pd.NA, 7], dtype="Int64")))
    assert ids(table.where(f.matches("seq")), "seq") == [1, 7]
    assert spark.sql("SELECT dynamic_filter('wanted', NULL), dynamic_filter('wanted', 2)").head() == (
        True,
        False,
    )


def test_filters_of_dates_by_bitmap(spark: SparkSession, t: str) -> None:
    pytest.importorskip("pyroaring")
    days = [r[0] for r in spark.table(t).where("c_date > '1975-01-01'").select("c_date").limit(4).collect()]
    with sdf.create_filter(spark, "days", "date") as f:
        f.update(sdf.bitmap([(d - dt.date(1970, 1, 1)).days for d in days]))
        by_bitmap = ids(spark.table(t).where(f.matches("c_date")))
        f.update(sdf.isin(days))
        assert ids(spark.table(t).where(f.matches("c_date"))) == by_bitmap


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
    assert reasons == ["the scan follows updates of a filter of the user's own"]
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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {t} WHERE NOT dynamic_filter_prune('wanted', seq)",
        "SELECT * FROM {t} WHERE grp = 1 OR dynamic_filter_prune('wanted', seq)",
        "SELECT dynamic_filter_prune('wanted', seq) FROM {t}",
        "SELECT * FROM {t} WHERE CASE WHEN grp = 1 THEN dynamic_filter_prune('wanted', seq) ELSE true END",
        "SELECT * FROM {t} a LEFT JOIN {t} b ON a.id = b.id AND dynamic_filter_prune('wanted', b.seq)",
        "SELECT * FROM {t} WHERE id IN (SELECT id FROM {t} WHERE NOT dynamic_filter_prune('wanted', seq))",
    ],
)
def test_prunes_is_refused_where_it_would_change_answers(
    spark: SparkSession, t: str, f: sdf.UserFilter, text: str
) -> None:
    with pytest.raises(
        Exception, match=r"filter 'wanted' of type bigint: .*dynamic_filter can stand anywhere"
    ):
        spark.sql(text.format(t=t)).schema  # noqa: B018


def test_plans_show_the_filter(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    f.update(sdf.between(5, 9))
    df = spark.table(t).where(f.matches("seq"))
    analysis = str(sdf.analyze(df))
    assert "[seq: 5 <= seq <= 9]" in analysis
    assert "dynamic_filter(wanted generation 1" in analysis
    with sdf.conf(spark).override(**{"report.showValues": False}):
        assert "5 <=" not in str(sdf.analyze(df))
        assert f.snapshot().expression == "hidden"


def test_one_query_of_many_filters(spark: SparkSession, t: str) -> None:
    made = [sdf.create_filter(spark, f"part{i}", "bigint") for i in range(4)]
    try:
        df = spark.table(t)
        for i, f in enumerate(made):
            f.update(sdf.between(i * 10, 2_000 + i))
            df = df.where(f.matches("seq"))
        assert ids(df, "seq") == list(range(30, 2_001))
    finally:
        for f in made:
            f.close()


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


def test_decimals_are_exact(spark: SparkSession) -> None:
    with sdf.create_filter(spark, "price", "decimal(10,2)") as f:
        f.update(sdf.isin([Decimal("1.5"), 2]))
        rows = spark.sql("SELECT x FROM VALUES (1.50BD), (1.51BD), (2.00BD) v(x)").selectExpr(
            "cast(x as decimal(10,2)) x"
        )
        assert sorted(r.x for r in rows.where(f.matches("x")).collect()) == [Decimal("1.50"), Decimal("2.00")]

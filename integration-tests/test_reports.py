"""What a user sees: plans before and after, the table functions, analyze."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_dynamic_filters as sdf

pytestmark = pytest.mark.client

FILTER_ID = re.compile(r"DynamicFilter#(\d+)")
PLACEHOLDER = re.compile(r"DynamicFilter#(\d+) \[(\w+): not known yet\]")
IN_FORCE = re.compile(r"DynamicFilter#(\d+) \[(\w+): (.+?)\]")


@pytest.fixture
def frame(spark: SparkSession, t: str) -> DataFrame:
    return spark.table(t).orderBy("id").limit(5)


@pytest.mark.core
def test_explain_shows_placeholders(spark: SparkSession, t: str) -> None:
    def explain(mode: str = "") -> str:
        return str(spark.sql(f"EXPLAIN {mode} SELECT * FROM {t} ORDER BY id LIMIT 5").collect()[0][0])

    for mode in ("", "FORMATTED", "EXTENDED", "COST"):
        plan = explain(mode)
        # Producer and scan show the same filter.
        assert len(FILTER_ID.findall(plan)) >= 2, plan
        assert len(set(FILTER_ID.findall(plan))) == 1, plan
        assert {column for _, column in PLACEHOLDER.findall(plan)} == {"id"}, plan
    with sdf.conf(spark).override(enabled=False):
        plan = explain()
    assert "Dynamic" not in plan
    assert "TopKFilter" not in plan


@pytest.mark.core
def test_analyze(frame: DataFrame) -> None:
    analysis = sdf.analyze(frame)
    assert analysis.fired()
    assert analysis.seconds > 0
    (row,) = analysis.filters
    assert row["query_id"] == analysis.query_id
    assert (row["producer"], row["columns"], row["form"], row["state"]) == ("topk", ["id"], "range", "ready")
    assert row["generation"] > 0
    assert row["size_bytes"] > 0
    (scan,) = analysis.scans
    assert scan["filter_ids"] == [row["filter_id"]]
    assert (scan["files_total"], scan["row_groups_total"], scan["rows_total"]) == (4, 20, 4_000)
    assert scan["rows_pruned"] + scan["rows_output"] == scan["rows_total"]
    assert 0 < scan["bytes_read"] < scan["bytes_total"]
    # The bound is the fifth smallest id of what one process has seen, and it is what the plan shows.
    in_force = {expression for _, _, expression in IN_FORCE.findall(analysis.plan)}
    assert in_force == {row["expression"]}, analysis.plan
    bound = re.search(r"id <= (\d+)", row["expression"])
    assert bound is not None, row["expression"]
    assert int(bound[1]) >= 4
    # What is shown of it is up to python/tests/test_analysis.py.
    assert re.search(r"rows +\[[#.]{20}\] .* of 4,000 .* read", str(analysis))
    assert re.search(r"#\d+: TopKFilter --> DynamicFilterScan of \S+ \(scan \d+\)\n", str(analysis))
    assert analysis._repr_html_().count("<table>") == 2


@pytest.mark.only("connect")
def test_analyze_of_a_plan_that_is_sent_compressed(
    new_session: Callable[[], SparkSession], all_types_path: Path
) -> None:
    pytest.importorskip("zstandard")
    spark = new_session()
    # The client asks for it before its first plan.
    spark.conf.set("spark.connect.session.planCompression.threshold", "0")
    condition = " AND ".join(["id >= 0"] * 100)
    frame = spark.read.parquet(str(all_types_path)).where(condition).orderBy("id").limit(5)
    sent = frame._plan.to_proto(spark.client)  # type: ignore[attr-defined]
    assert sent.HasField("compressed_operation")
    assert sdf.analyze(frame).fired()


def test_analyze_leaves_no_tag(spark: SparkSession, frame: DataFrame) -> None:
    sdf.analyze(frame)
    assert not {tag for tag in spark.getTags() if "dynamic" in tag}
    with pytest.raises(Exception, match="boom"):
        sdf.analyze(spark.sql("SELECT raise_error('boom')"))
    assert not {tag for tag in spark.getTags() if "dynamic" in tag}


def test_the_report_does_not_report_itself(spark: SparkSession, frame: DataFrame) -> None:
    """Whoever asks for the newest query gets it each time, by whatever query over the report."""
    query_id = sdf.analyze(frame).query_id
    newest = "SELECT query_id, producer FROM dynamic_filters()"
    for _ in range(2):
        for text in (
            f"{newest} WHERE query_id = (SELECT max(query_id) FROM dynamic_filters())",
            f"{newest} ORDER BY query_id DESC LIMIT 1",
            "SELECT max(f.query_id), max(f.producer) FROM dynamic_filters() f "
            "JOIN dynamic_filter_scans() s ON f.query_id = s.query_id",
        ):
            assert [tuple(row) for row in spark.sql(text).collect()] == [(query_id, "topk")], text


def test_a_sentence_for_each_query(spark: SparkSession, frame: DataFrame, t: str) -> None:
    def sentence(df: DataFrame) -> str:
        analysis = sdf.analyze(df)
        query = f"SELECT summary FROM dynamic_filter_summary() WHERE query_id = {analysis.query_id}"
        assert [row["summary"] for row in spark.sql(query).collect()] == [analysis.summary()]
        assert analysis.summary() in str(analysis)
        return analysis.summary()

    told = sentence(frame)
    assert re.fullmatch(r"1 filter in force: read \d+ % of the bytes, skipped .*\d+ % of the rows", told), (
        told
    )
    assert "a LIMIT without ORDER BY takes the first rows" in sentence(spark.table(t).limit(5))
    assert "Spark itself skips by a WHERE" in sentence(spark.table(t).where("id > 5"))
    assert "the sort key is computed" in sentence(spark.sql(f"SELECT * FROM {t} ORDER BY abs(id) LIMIT 5"))
    with sdf.conf(spark).override(enabled=False):
        assert sentence(frame) == "no dynamic filter: spark.dynamicFilters.enabled is false"
    with sdf.create_filter(spark, "wide", "bigint") as wide:
        wide.update(sdf.between(-1, 1_000_000))
        told = sentence(spark.table(t).where(wide.matches("id")))
    assert told.startswith("1 filter in force, skipped nothing: all row groups have values that pass"), told


def test_queries_are_named_by_their_text_or_line(spark: SparkSession, frame: DataFrame, t: str) -> None:
    analysis = sdf.analyze(spark.sql(f"SELECT *\n  FROM {t} ORDER BY id LIMIT 5"))
    assert analysis.description == f"SELECT * FROM {t} ORDER BY id LIMIT 5"
    assert "NativeMethodAccessorImpl" not in sdf.analyze(frame).description
    newest = "SELECT description FROM dynamic_filter_summary() ORDER BY query_id DESC LIMIT 1"
    text = f"SELECT id FROM {t} ORDER BY id LIMIT 4"
    for run in (spark.sql(text).show, spark.sql(text).count):
        run()
        assert [row[0] for row in spark.sql(newest).collect()] == [text]


def test_rejected_filters_are_reported(spark: SparkSession, t: str) -> None:
    analysis = sdf.analyze(spark.sql(f"SELECT * FROM {t} ORDER BY concat(c_string, 'secret') LIMIT 5"))
    (row,) = analysis.filters
    assert (row["state"], row["generation"], row["reason_code"]) == ("disabled", 0, "path.computed")
    assert row["reason"] in str(analysis)
    assert row["advice"] in str(analysis)
    # Values of expressions are hidden.
    assert row["reason"].startswith("the sort key is computed: concat("), row
    assert row["reason"].endswith(", ?)"), row


def test_retained_queries(spark: SparkSession, t: str) -> None:
    with sdf.conf(spark).override(**{"report.retainedQueries": 2}):
        for limit in (1, 2, 3, 4):
            last = sdf.analyze(spark.table(t).orderBy("id").limit(limit)).query_id
        ids = {row["query_id"] for row in sdf.filters(spark).collect()}
    assert len(ids) <= 2
    assert last in ids


@pytest.mark.core
def test_each_query_under_a_tag_as_one_row(spark: SparkSession, t: str) -> None:
    spark.addTag("one-row")
    try:
        spark.sql(f"SELECT * FROM {t} ORDER BY c_int, id LIMIT 3").collect()
        spark.sql(f"SELECT * FROM {t} ORDER BY id LIMIT 5").collect()
    finally:
        spark.removeTag("one-row")
    spark.sql(f"SELECT * FROM {t} ORDER BY c_date, id LIMIT 5").collect()
    both = spark.sql("SELECT * FROM dynamic_filter_report('one-row')").collect()
    other, report = sorted(both, key=lambda r: r["query_id"])
    assert [f["columns"] for f in other["filters"]] == [["c_int"]]
    assert all(r["part_of"] is None and r["processor_ms"] > 0 for r in both)
    query = report["query_id"]
    assert report["state"] == "finished"
    assert any("one-row" in tag for tag in report["tags"])
    assert report["filters"] == sdf.filters(spark).where(f"query_id = {query}").collect()
    assert report["scans"] == sdf.scans(spark).where(f"query_id = {query}").collect()
    assert [f["columns"] for f in report["filters"]] == [["id"]]
    assert report["scans"][0]["row_groups_pruned"] > 0
    # Spark adds tags of its own, with numbers and identifiers in them.
    for unknown in ("row", "", "spark-session", "none-has-this"):
        assert spark.sql(f"SELECT * FROM dynamic_filter_report('{unknown}')").collect() == []


@pytest.mark.parametrize("command", ["CREATE TABLE top USING parquet AS", "INSERT INTO top"])
def test_analyze_refuses_a_command_that_has_run(spark: SparkSession, t: str, command: str) -> None:
    """Without the mend it ran the command's result, a list of no rows, and said that there are no filters."""
    spark.sql("DROP TABLE IF EXISTS top")
    if command.startswith("INSERT"):
        spark.sql("CREATE TABLE top (id BIGINT) USING parquet")
    frame = spark.sql(f"{command} SELECT CAST(seq AS BIGINT) AS id FROM {t} ORDER BY seq DESC LIMIT 10")
    with pytest.raises(sdf.InvalidArgument, match=r"ran this command already.*sdf\.watch"):
        sdf.analyze(frame)
    assert spark.table("top").count() == 10
    newest = sdf.filters(spark).orderBy("query_id", ascending=False).first()
    assert newest["state"] == "ready"
    # Without the mend collect() added a query whose scan had skipped every file: it read none.
    before = sdf.scans(spark).count()
    frame.collect()
    assert sdf.scans(spark).count() == before > 0
    spark.sql("DROP TABLE top")


def test_analyze_takes_rows_of_the_client(spark: SparkSession) -> None:
    assert sdf.analyze(spark.createDataFrame([(1,)], "id INT")).filters == []

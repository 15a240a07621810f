"""`sdf.compare` and `sdf.watch`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf

pytestmark = [pytest.mark.client, pytest.mark.timeout(120), pytest.mark.usefixtures("t")]


def test_both_ways_by_turns(spark: SparkSession, tmp_path: Path) -> None:
    before = sdf.conf(spark).enabled
    seen = sdf.compare(spark.sql("SELECT * FROM t ORDER BY id LIMIT 10"), runs=2)
    assert (len(seen.off), len(seen.on), seen.rows, seen.difference) == (2, 2, "equal", "")
    assert seen.analysis.fired(), str(seen)
    assert all(run.seconds > 0 and run.processor_seconds > 0 for run in (*seen.off, *seen.on))
    assert f"ratio {seen.ratio:.2f}" in str(seen)
    assert "rows equal" in str(seen)
    seen.to_html(tmp_path / "seen.html")
    assert "rows equal" in (tmp_path / "seen.html").read_text(encoding="utf-8")
    assert sdf.conf(spark).enabled == before


def test_ties_are_told_apart(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may choose any of rows with the same sort key."""
    from spark_dynamic_filters import testing

    def only_ties(*_: object, **__: object) -> None:
        raise AssertionError("only ties differ; pass keys=['g']")

    monkeypatch.setattr(testing, "assert_same_result", only_ties)
    seen = sdf.compare(spark.table("t").where("id < 5"), runs=1)
    assert (seen.rows, seen.equal) == ("ties", True)


def test_what_cannot_be_compared(spark: SparkSession) -> None:
    for runs in (0, 1.5, True, "3"):
        with pytest.raises(sdf.InvalidArgument, match=r"runs is .*; valid are whole numbers from 1"):
            sdf.compare(spark.table("t"), runs=runs)  # type: ignore[arg-type]
    with pytest.raises(sdf.InvalidArgument, match="differ from run to run without filters, too"):
        sdf.compare(spark.sql("SELECT max(id), current_timestamp() FROM t"))


def test_queries_of_a_block(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT * FROM t ORDER BY id LIMIT 1").collect()
    with sdf.watch(spark) as seen:
        spark.sql("SELECT * FROM t ORDER BY id DESC LIMIT 10").collect()
        spark.sql("SELECT * FROM t ORDER BY id LIMIT 10").write.parquet(str(tmp_path / "best"))
        spark.table("t").count()
    spark.sql("SELECT * FROM t ORDER BY id LIMIT 1").collect()
    assert [q.fired() for q in seen.queries] == [True, True, False], str(seen)
    assert all(f"query {q.query_id}: " in str(seen) for q in seen.queries)
    seen.to_html(tmp_path / "seen.html")
    assert str(seen.queries[1].query_id) in (tmp_path / "seen.html").read_text(encoding="utf-8")


def test_a_block_without_queries_and_one_that_fails(spark: SparkSession) -> None:
    with sdf.watch(spark) as seen:
        pass
    assert (seen.queries, str(seen)) == ([], "no query ran in this block")
    with pytest.raises(ZeroDivisionError), sdf.watch(spark):
        _ = 1 // 0

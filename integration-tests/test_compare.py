"""`sdf.compare` and `sdf.watch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_dynamic_filters as sdf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]


@pytest.fixture(scope="module", autouse=True)
def t(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Table t in the order of id, which is unique; all rows have the same g."""
    folder = tmp_path_factory.mktemp("compared")
    for i in range(4):
        ids = np.arange(i * 2_000, (i + 1) * 2_000)
        pq.write_table(
            pa.table({"id": ids, "g": np.zeros(len(ids))}), folder / f"{i}.parquet", row_group_size=200
        )
    spark.read.parquet(str(folder)).createOrReplaceTempView("t")


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


@pytest.mark.parametrize("runs", [0, 1.5, True, "3"])
def test_wrong_number_of_runs(spark: SparkSession, runs: object) -> None:
    with pytest.raises(sdf.InvalidArgument, match=r"runs is .*; valid are whole numbers from 1"):
        sdf.compare(spark.table("t"), runs=runs)  # type: ignore[arg-type]


def test_rows_that_change_from_run_to_run(spark: SparkSession) -> None:
    with pytest.raises(sdf.InvalidArgument, match="differ from run to run without filters, too"):
        sdf.compare(spark.sql("SELECT max(id), current_timestamp() FROM t"))


def test_a_command_ran_already(spark: SparkSession) -> None:
    with pytest.raises(
        sdf.InvalidArgument, match=r"compare: spark\.sql ran this command already.*sdf\.watch"
    ):
        sdf.compare(spark.sql("SHOW TABLES"))


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


def test_a_block_without_queries(spark: SparkSession) -> None:
    with sdf.watch(spark) as seen:
        pass
    assert (seen.queries, str(seen)) == ([], "no query ran in this block")


def test_an_error_in_a_block_is_raised(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), sdf.watch(spark):
        _ = 1 // 0

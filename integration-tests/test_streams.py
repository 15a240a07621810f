"""Queries of Structured Streaming: batches that `foreachBatch` runs, and streams joined to tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import spark_dynamic_filters as sdf
from support import joins

pytestmark = [pytest.mark.core, pytest.mark.exhaustive, pytest.mark.timeout(300)]

FILES = 8


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """A table whose files each have a range of `id`."""
    path = str(tmp_path / "table")
    rows = spark.range(0, 4_000, 1, FILES).selectExpr("id", "id % 7 AS v", "md5(string(id)) AS payload")
    rows.write.parquet(path)
    return path


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of two batches of ten keys. The keys of a batch are in one file of the table."""
    path = str(tmp_path / "stream")
    for start in (100, 2_100):
        spark.range(start, start + 10, 1, 1).write.mode("append").parquet(path)
    return spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(path)


def _run(writer: DataStreamWriter, checkpoint: Path) -> Any:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def _scans(spark: SparkSession, after: int) -> list[tuple[int, int]]:
    """Files, and files skipped, of the filtered scans since a query."""
    rows = sdf.scans(spark).where(f"query_id > {after}").orderBy("query_id").collect()
    return [(row.files_total, row.files_pruned) for row in rows]


def _newest(spark: SparkSession) -> int:
    return spark.sql("SELECT coalesce(max(query_id), -1) FROM dynamic_filter_queries()").first()[0]


def test_batches_belong_to_the_session_that_started_the_stream(
    spark: SparkSession, table: str, stream: DataFrame, tmp_path: Path
) -> None:
    """Fails if the clone of the session in which a stream runs its batches has reports of its own, or no user
    filters.
    """
    wanted = sdf.create_filter(spark, "wanted_by_stream", "bigint")
    counts = []

    def each(batch: DataFrame, number: int) -> None:
        rows = batch.sparkSession.read.parquet(table)
        counts.append(batch.join(rows, "id").count())
        wanted.update(sdf.isin([row.id for row in batch.collect()]))
        counts.append(rows.where("dynamic_filter('wanted_by_stream', id)").count())

    before = _newest(spark)
    _run(stream.writeStream.foreachBatch(each), tmp_path / "checkpoint")
    wanted.close()
    assert counts == [10] * 4
    assert _scans(spark, before) == [(FILES, FILES - 1)] * 4


@pytest.mark.parametrize("broadcast", ["10m", "-1"], ids=["broadcast", "merge"])
def test_a_table_joined_to_a_stream_is_filtered_in_each_batch(
    spark: SparkSession, table: str, stream: DataFrame, tmp_path: Path, broadcast: str
) -> None:
    """The stream's own files are not filtered: Spark counts the rows of its batches by their scans. Fails
    without filters for plans of streams, or if the query around a batch is said to skip the files, too.
    """

    def run(name: str) -> tuple[list[Any], list[int]]:
        joined = stream.join(spark.read.parquet(table), "id")
        writer = joined.writeStream.format("memory").queryName(name)
        progress = _run(writer, tmp_path / name).recentProgress
        rows = sorted(tuple(row) for row in spark.table(name).collect())
        return rows, [p["numInputRows"] for p in progress if p["numInputRows"]]

    with joins.settings(spark, {"spark.sql.autoBroadcastJoinThreshold": broadcast}):
        with sdf.conf(spark).override(enabled=False):
            stock = run("stock")
        before = _newest(spark)
        ours = run("ours")
    assert ours == stock
    assert len(stock[0]) == 20
    assert stock[1] == [10, 10]
    assert _scans(spark, before) == [(FILES, FILES - 1)] * 2


def test_a_stream_without_sizes_filters_a_table_with_a_hint(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    """Fails if Spark's scan of such a source (`MicroBatchScan`) is not taken for repeatable."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    keys = source.select(source.value.alias("id"))
    before = _newest(spark)
    with joins.settings(spark, joins.SHUFFLED_AS_USERS_DO):
        joined = keys.join(spark.read.parquet(table).hint("DYNAMIC_FILTER"), "id")
        _run(joined.writeStream.format("memory").queryName("rates"), tmp_path / "checkpoint")
    assert sorted(row.id for row in spark.table("rates").collect()) == list(range(10))
    assert _scans(spark, before) == [(FILES, FILES - 1)]


@pytest.mark.parametrize("kind", ["groups", "distinct"])
def test_a_stream_with_a_state_has_no_filter(
    spark: SparkSession, table: str, stream: DataFrame, tmp_path: Path, kind: str
) -> None:
    """The state outlives the batch of which a filter would be made."""
    before = _newest(spark)
    joined = stream.join(spark.read.parquet(table), "id")
    query = joined.groupBy("v").count() if kind == "groups" else joined.dropDuplicates(["v"])
    mode = "complete" if kind == "groups" else "append"
    _run(query.writeStream.format("memory").queryName(kind).outputMode(mode), tmp_path / "checkpoint")
    assert spark.table(kind).count() == 7
    assert _scans(spark, before) == []

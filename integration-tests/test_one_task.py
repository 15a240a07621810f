"""Scans that a plan takes for one partition: since Spark 4.3 a query over one small file may run in one task,
without exchanges, although the file has several splits.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins

pytestmark = pytest.mark.timeout(150)

ROWS = 20_000
ONE_TASK = {
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
    # Not for files that are larger than a partition.
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.openCostInBytes": "1k",
    "spark.sql.files.minPartitionNum": "6",
}
_QUERIES = [
    "SELECT min(k), max(k) FROM one",
    "SELECT k, count(*) FROM one GROUP BY k ORDER BY k DESC LIMIT 3",
    "SELECT k, id FROM (SELECT k, id, rank() OVER (ORDER BY k) r FROM one) WHERE r <= 2",
    "SELECT k, id FROM one ORDER BY k DESC, id LIMIT 5",
]


@pytest.fixture
def one(spark: SparkSession, tmp_path: Path) -> None:
    rows = {
        "k": [i // 40 for i in range(ROWS)],
        "id": range(ROWS),
        "pad": [f"{i * 7919:060x}" for i in range(ROWS)],
    }
    pq.write_table(pa.table(rows), tmp_path / "one.parquet", row_group_size=500)
    spark.read.parquet(str(tmp_path / "one.parquet")).createOrReplaceTempView("one")


@pytest.mark.usefixtures("one")
@pytest.mark.parametrize("query", _QUERIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_one_partition_stays_one(spark: SparkSession, query: str, adaptive: str) -> None:
    compare = joins.Comparer(spark)
    # The first run tells what is in the file.
    for _ in range(2):
        run = compare(query, ONE_TASK, joins.ADAPTIVE[adaptive], expected=query).on
    assert any(s["rows_pruned"] > 0 for s in run.scans), str(run)


@pytest.mark.usefixtures("one")
def test_user_filters_of_one_partition(spark: SparkSession) -> None:
    compare = joins.Comparer(spark)
    with sdf.create_filter(spark, "few", "bigint") as few:
        for form in (sdf.between(30, 45), sdf.isin([5, 499]), sdf.nothing()):
            few.update(form)
            for query in ("SELECT count(*) FROM one WHERE {}", "SELECT 1 FROM one WHERE {} LIMIT 5"):
                compare(query.format("dynamic_filter('few', k)"), ONE_TASK, fires=None)

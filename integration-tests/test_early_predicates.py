"""The query's own predicates, asked in a first pass: not without those that guard them, nor for nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import Comparer

pytestmark = pytest.mark.exhaustive


def test_not_without_those_that_guard_them(spark: SparkSession, tmp_path: Path) -> None:
    """A predicate on a struct is not asked early, so nor is one after it that may fail; a comparison is."""
    rows = [k % 40 for k in range(4_000)]
    wide = [format(k * 7_919, "x").rjust(200, "a") for k in range(4_000)]
    struct = pa.array([{"x": x} for x in rows])
    # No timestamp is as late as these.
    days = pa.array([110_000_000 if x == 0 else x for x in rows], pa.int32()).cast(pa.date32())
    table = pa.table(
        {"k": pa.array(range(4_000), pa.int64()), "x": rows, "st": struct, "d": days, "wide": wide}
    )
    joins.view(spark, tmp_path, "guarded", table, row_group_size=500)
    query = "SELECT k, wide FROM guarded WHERE st.x > 0 AND {} ORDER BY k DESC LIMIT 20"
    predicates = ["100 DIV x > 2", "x > 2", "CAST(d AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ'1970-01-01 00:00:00'"]
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3):
        spark.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
        predicates.append("CAST(d AS TIMESTAMP_NTZ(9)) > CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ(9))")
    for predicate in predicates:
        run = Comparer(spark)(query.format(predicate)).on
        assert len(run.rows) == 20
        (scan,) = run.scans
        assert not any("filtering a row group" in reason for reason in scan["reasons"]), str(run)


@pytest.mark.parametrize("least", ["'0'", "'e'"])
def test_where_nearly_all_rows_pass(spark: SparkSession, tmp_path: Path, least: str) -> None:
    """All rows have the same first key: its bound leaves none out. The predicate leaves out none, or most."""
    rows = 200_000
    text = [format(k * 2_654_435_761 % 2**32, "08x").ljust(60, "z") for k in range(rows)]
    table = pa.table({"day": [7] * rows, "id": range(rows), "text": text, "wide": [t[::-1] for t in text]})
    pq.write_table(table, tmp_path / "one_day.parquet", row_group_size=rows, write_page_index=True)
    spark.read.parquet(str(tmp_path / "one_day.parquet")).createOrReplaceTempView("one_day")
    query = (
        f"SELECT day, id, wide FROM one_day WHERE substr(text, 1, 8) > {least} ORDER BY day DESC, id LIMIT 10"
    )
    one_task = {"spark.sql.files.maxPartitionBytes": "1g"}
    run = Comparer(spark)(query, one_task, fires=least != "'0'").on
    (scan,) = run.scans
    assert scan["row_groups_late_materialized"] == 1, str(run)
    assert any("the columns of these" in r for r in scan["reasons"]) == (least == "'0'"), str(run)

"""What earlier queries learned of files: it leaves out files that are as they were, and never one that was
written anew while a view or a table keeps its listing.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins

pytestmark = pytest.mark.timeout(240)

FILES = 6
ROWS = 1_000
CHANGED = "a file was rewritten after its statistics were learned"

# In files that are as they were, these keys are in the first one only.
_LEAST, _MOST = 10, 29


def _write(file: Path, keys: Iterable[int], age: float) -> None:
    """Writes `k` and others; the file looks as if it was written `age` seconds ago."""
    keys = list(keys)
    payload = [format(k * 7919, "x").rjust(40, "x") for k in keys]
    table = pa.table({"k": keys, "id": [k * 3 for k in keys], "payload": payload})
    pq.write_table(table, file, row_group_size=500)
    when = time.time() - age
    os.utime(file, (when, when))


class Table:
    """Files of ascending keys, under a view or a table that keeps the listing of its first query."""

    def __init__(self, spark: SparkSession, folder: Path, catalog: bool) -> None:
        self.folder = folder / "kept"
        self.folder.mkdir()
        for i in range(FILES):
            _write(self.folder / f"part-{i}.parquet", range(i * ROWS, (i + 1) * ROWS), 900 - i)
        if catalog:
            spark.sql(f"CREATE TABLE kept USING parquet LOCATION '{self.folder}'")
        else:
            spark.read.parquet(str(self.folder)).createOrReplaceTempView("kept")
        joins.view(spark, folder, "few", joins.build(range(_LEAST, _MOST + 1)))

    def rewrite(self, rows: int) -> None:
        """The last file gets keys like the first one's, and some that are less."""
        _write(self.folder / f"part-{FILES - 1}.parquet", range(-100, rows - 100), 300)


@pytest.fixture(params=["view", "catalog"])
def kept(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    catalog = request.param == "catalog"
    # A split for each file, so that what is learned of one decides over a task.
    with joins.settings(spark, joins.FOREVER, {"spark.sql.files.openCostInBytes": "1m"}):
        yield Table(spark, tmp_path, catalog)
    spark.sql(f"DROP {'TABLE' if catalog else 'VIEW'} kept")


QUERIES = {
    "topk": "SELECT k FROM kept ORDER BY k LIMIT 7",
    "broadcast": "SELECT /*+ BROADCAST(b) */ * FROM kept JOIN (SELECT * FROM few WHERE n < 99) b ON k = j",
    "shuffled": "SELECT /*+ MERGE(b) */ * FROM kept JOIN (SELECT * FROM few WHERE n < 99) b ON k = j",
    "user": "SELECT * FROM kept WHERE dynamic_filter('kept_keys', k)",
    "min": "SELECT min(k) FROM kept",
}
#: These keys are in no file before one is rewritten.
_NOTHING = "SELECT /*+ BROADCAST(b) */ k FROM kept JOIN (SELECT j - 60 AS j FROM few) b ON k = j"


@pytest.fixture
def user_filter(spark: SparkSession) -> Iterator[None]:
    with sdf.create_filter(spark, "kept_keys", "bigint") as made:
        made.update(sdf.between(_LEAST, _MOST))
        yield


def _files_pruned(run: joins.Run) -> int:
    return sum(s["files_pruned"] for s in run.scans)


def _changed(run: joins.Run) -> int:
    return sum((s["reasons"] or {}).get(CHANGED, 0) for s in run.scans)


@pytest.mark.usefixtures("user_filter")
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("rows", [ROWS, 800])
def test_a_rewritten_file_is_read(spark: SparkSession, kept: Table, query: str, rows: int) -> None:
    compare, text = joins.Comparer(spark), QUERIES[query]
    first, again = compare(text), compare(text)
    assert _changed(first.on) == _changed(again.on) == 0
    # A TopK leaves out files once it has a bound, which two tasks at a time may get later than their first
    # files.
    left_out = FILES - 3 if query in ("topk", "min") else FILES - 1
    assert _files_pruned(again.on) >= left_out, str(again.on)
    for _ in range(2):
        kept.rewrite(rows)
        rewritten = compare(text).on
        assert sorted(map(str, rewritten.rows)) != sorted(map(str, first.on.rows))
        # The others are as they were.
        assert _files_pruned(rewritten) >= left_out - 1, str(rewritten)
        assert _changed(rewritten) == 1, str(rewritten)


@pytest.mark.usefixtures("user_filter")
@pytest.mark.parametrize(("text", "left"), [(QUERIES["broadcast"], 1), (QUERIES["user"], 1), (_NOTHING, 0)])
def test_a_file_is_rewritten_between_two_runs_of_a_data_frame(
    spark: SparkSession, kept: Table, text: str, left: int
) -> None:
    # Spark keeps the scan of a DataFrame, and what was left out of it: this has to be looked at again.
    learned = [joins.run(spark, text) for _ in range(2)][1]
    assert _files_pruned(learned) == FILES - left, str(learned)
    frame = spark.sql(text)
    assert sorted(frame.collect()) == sorted(learned.rows)
    kept.rewrite(ROWS)
    again = sorted(frame.collect())
    with sdf.conf(spark).override(enabled=False):
        assert again == sorted(spark.sql(text).collect())
    assert len(again) > len(learned.rows)


def test_a_missing_file_is_missed(spark: SparkSession, kept: Table) -> None:
    text = QUERIES["broadcast"]
    found = [joins.run(spark, text) for _ in range(2)]
    assert _files_pruned(found[1]) == FILES - 1
    (kept.folder / "part-3.parquet").unlink()
    with pytest.raises(Exception, match="part-3"):
        joins.run(spark, text)
    with joins.settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
        after = joins.Comparer(spark)(text).on
    assert sorted(after.rows) == sorted(found[0].rows)
    assert _changed(after) == 1


def test_many_files_of_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    # Many of one folder are asked for by listing it.
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(40):
        _write(folder / f"part-{i:02}.parquet", range(i * 100, i * 100 + 100), 900)
    spark.read.parquet(str(folder)).createOrReplaceTempView("kept")
    joins.view(spark, tmp_path, "few", joins.build(range(_LEAST, _MOST + 1)))
    compare, text = joins.Comparer(spark), QUERIES["broadcast"]
    compare(text)
    assert _files_pruned(compare(text).on) == 39
    for i in (7, 33):
        _write(folder / f"part-{i:02}.parquet", range(100), 300)
    rewritten = compare(text).on
    assert (_files_pruned(rewritten), _changed(rewritten)) == (37, 2), str(rewritten)
    assert len(rewritten.rows) == 3 * (_MOST - _LEAST + 1)


@pytest.mark.parametrize(
    "other",
    [{"spark.sql.parquet.int96TimestampConversion": "false"}, {"spark.sql.session.timeZone": "UTC"}],
    ids=["conversion", "zone"],
)
def test_settings_change_between_planning_and_execution(
    spark: SparkSession, tmp_path: Path, other: dict[str, str]
) -> None:
    # Spark's reader goes by the settings of the execution: what it learns is not for those of the plan.
    own = {"spark.sql.parquet.int96TimestampConversion": "true", "spark.sql.session.timeZone": "America/Lima"}
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    (tmp_path / "hours").mkdir()
    for i in range(FILES):
        file = tmp_path / "hours" / f"part-{i}.parquet"
        hours = [start + dt.timedelta(hours=h) for h in range(i * ROWS, (i + 1) * ROWS)]
        table = pa.table({"k": pa.array(hours, pa.timestamp("us")), "id": range(i * ROWS, (i + 1) * ROWS)})
        pq.write_table(table, file, row_group_size=500, use_deprecated_int96_timestamps=True)
        os.utime(file, (time.time() - 900,) * 2)
    spark.read.parquet(str(tmp_path / "hours")).createOrReplaceTempView("hours")
    few = [start + dt.timedelta(hours=h) for h in range(3 * ROWS, 3 * ROWS + 10)]
    joins.view(spark, tmp_path, "few_hours", pa.table({"j": pa.array(few, pa.timestamp("us", tz="UTC"))}))
    text = "SELECT id FROM hours JOIN few_hours ON k = j"
    with joins.settings(spark, own, {"spark.sql.files.openCostInBytes": "1m"}):
        frame = spark.sql(text)
        frame.explain()
        with joins.settings(spark, other):
            elsewhere = frame.collect()
        run = joins.Comparer(spark)(text).on
        # Five hours earlier than UTC: the keys are in another file.
        assert sorted(row.id for row in run.rows) == [3 * ROWS - 5 + i for i in range(10)]
        learned = joins.run(spark, text)
        assert sorted(learned.rows) == sorted(run.rows)
        assert _files_pruned(learned) == FILES - 2, str(learned)
    assert len(elsewhere) == 10

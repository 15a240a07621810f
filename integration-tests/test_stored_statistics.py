"""What is learned of files and kept in a directory (`stats.path`): the next application begins with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.applications import LOG, run_application, value

# Applications of their own: the mode of the suite makes no difference.
pytestmark = [pytest.mark.timeout(300), pytest.mark.core, pytest.mark.exhaustive]

_CODE = """
import os, time
import pyarrow as pa, pyarrow.parquet as pq
import datetime as dt
table, stats = folder / "table", sys.argv[2]
start_of = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
def write(i, first, age=900):
    t = [start_of + dt.timedelta(seconds=first + n) for n in range(1000)]
    # Each second row: two files of the same length and different values.
    data = pa.table({"t": pa.array(t, pa.timestamp("us", tz="UTC")), "id": pa.array(range(1000), pa.int64())})
    file = table / f"part-{i}.parquet"
    pq.write_table(data, file, row_group_size=250, use_deprecated_int96_timestamps=True)
    os.utime(file, (time.time() - age, time.time() - age))
if not table.exists():
    table.mkdir()
    # The best file is listed last.
    for i in range(8):
        write(i, (7 - i) * 1000)
if "rewrite" in sys.argv:
    write(0, -5000, age=600)
spark = start("local[1]")
spark.conf.set("spark.dynamicFilters.stats.path", stats)
spark.read.parquet(str(table)).createOrReplaceTempView("v")
query = "SELECT t, id FROM v ORDER BY t LIMIT 5"
with sdf.conf(spark).override(enabled=False):
    expected = [str(r) for r in spark.sql(query).collect()]
runs = []
for _ in range(2):
    rows = [str(r) for r in spark.sql(query).collect()]
    newest = max((s.query_id for s in sdf.scans(spark).collect()), default=-1)
    (scan,) = [s.asDict() for s in sdf.scans(spark).collect() if s.query_id == newest]
    runs.append({"same": rows == expected, "pruned": scan["row_groups_pruned"],
                 "unopened": scan["files_unopened"], "bytes": scan["bytes_total"]})
print("RUNS", json.dumps(runs))
print("FIRST", expected[0])
spark.stop()
"""


def _run(folder: Path, stats: str, *more: str) -> list[dict[str, Any]]:
    out = run_application(_CODE, folder, stats, *more)
    runs = json.loads(value(out, "RUNS"))
    assert all(run["same"] for run in runs), out
    return list(runs)


def test_the_first_run_of_an_application_knows_what_another_learned(tmp_path: Path) -> None:
    stats = tmp_path / "statistics"
    first, repeated = _run(tmp_path, str(stats))
    # INT96 has no statistics in footers: nothing orders the files of a first run.
    assert first["unopened"] < 7
    assert repeated["unopened"] == 7
    (file,) = stats.iterdir()
    again, _ = _run(tmp_path, stats.as_uri())
    assert again == repeated
    # A file that was written anew, with better rows, is read.
    changed, _ = _run(tmp_path, str(stats), "rewrite")
    assert changed["unopened"] < 8
    # What cannot be read is neither believed nor in the way, and is replaced.
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    without, _ = _run(tmp_path, str(stats))
    assert "are not used: the checksum is wrong" in (tmp_path / LOG).read_text(encoding="utf-8")
    assert without["unopened"] < 7
    assert _run(tmp_path, str(stats))[0]["unopened"] == 7


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory", encoding="utf-8")
    _, repeated = _run(tmp_path, str(tmp_path / "file"))
    assert repeated["unopened"] == 7
    log = (tmp_path / LOG).read_text(encoding="utf-8")
    assert log.count("they are kept in memory only") == 1, log


_PARTITIONS = """
import os
spark = start("local[1]", settings={
    "spark.sql.warehouse.dir": str(folder / "warehouse"),
    "spark.dynamicFilters.stats.path": str(folder / "statistics"),
})
rows = "SELECT id, id % 10 AS v, id DIV 1000 AS p FROM range(4000)"
spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {rows}")
for file in (folder / "warehouse").rglob("*.parquet"):
    os.utime(file, (1.7e9, 1.7e9))
spark.catalog.refreshTable("t")
for where in ("p < 2", "p > 1", "p = 3"):
    spark.sql(f"SELECT id, v FROM t WHERE {where} ORDER BY id DESC LIMIT 3").collect()
spark.stop()
"""


def test_a_table_of_partitions_is_one_table_whatever_a_query_reads_of_it(tmp_path: Path) -> None:
    run_application(_PARTITIONS, tmp_path)
    assert len(list((tmp_path / "statistics").iterdir())) == 1


_OLD = """
import datetime as dt, os
import pyarrow as pa, pyarrow.parquet as pq
table, zone = folder / "old", sys.argv[2]
if not table.exists():
    table.mkdir()
    for i in range(6):
        start_of = dt.datetime(1700, 1, 1) + dt.timedelta(days=50 * i)
        t = [start_of + dt.timedelta(minutes=7 * n) for n in range(2000)]
        data = pa.table({"t": pa.array(t, pa.timestamp("us")), "pad": [os.urandom(150).hex() for _ in t]})
        pq.write_table(data, table / f"{i}.parquet", row_group_size=500, use_deprecated_int96_timestamps=True)
        os.utime(table / f"{i}.parquet", (1.7e9, 1.7e9))
spark = start("local[1]", settings={
    "spark.driver.extraJavaOptions": f"-Duser.timezone={zone}",
    "spark.dynamicFilters.stats.path": str(folder / "statistics"),
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
})
spark.read.parquet(str(table)).createOrReplaceTempView("v")
first = "SELECT min(t) FROM v WHERE input_file_name() LIKE '%3.parquet'"
micros = spark.sql(f"SELECT unix_micros(({first}))").first()[0]
since = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)
with sdf.create_filter(spark, "one", "timestamp") as one:
    one.update(sdf.between(since, since))
    for _ in range(2):
        rows = len(spark.sql("SELECT * FROM v WHERE dynamic_filter('one', t)").collect())
newest = max(s.query_id for s in sdf.scans(spark).collect())
(scan,) = [s for s in sdf.scans(spark).collect() if s.query_id == newest]
print("ROWS", rows)
print("UNOPENED", scan.files_unopened)
spark.stop()
"""


def test_an_application_in_another_time_zone(tmp_path: Path) -> None:
    """By the zone of the JVM Spark rebases old timestamps of files that name none."""
    for each in ("UTC", "America/Los_Angeles"):
        out = run_application(_OLD, tmp_path, each)
        assert (value(out, "ROWS"), value(out, "UNOPENED")) == ("1", "5"), (each, out)

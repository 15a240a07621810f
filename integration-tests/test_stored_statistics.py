"""What is learned of files and kept in a directory (`stats.path`): the next application begins with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.applications import run_application, value

# Applications of their own: the mode of the suite makes no difference.
pytestmark = [pytest.mark.timeout(300), pytest.mark.exhaustive]

#: Arguments: the JVM's time zone, and whether this is the second application.
_CODE = """
import datetime as dt, os
import pyarrow as pa, pyarrow.parquet as pq

zone, is_second = sys.argv[2], sys.argv[3] == "second"

def write(file, start, step, rows, pad=False, age=900):
    file.parent.mkdir(exist_ok=True)
    # Without a zone in the file, as old writers leave it: Spark takes the JVM's for times long ago.
    t = [start + n * step for n in range(rows)]
    kind = pa.timestamp("us", tz=None if start.tzinfo is None else "UTC")
    more = {"pad": [os.urandom(150).hex() for _ in t]} if pad else {"id": pa.array(range(rows), pa.int64())}
    table = pa.table({"t": pa.array(t, kind), **more})
    pq.write_table(table, file, row_group_size=rows // 4, use_deprecated_int96_timestamps=True)
    os.utime(file, (1.7e9 - age, 1.7e9 - age))

second, names = dt.timedelta(seconds=1), ("kept", "rewritten")
def part(name, i, first, age=900):
    # Files of the same length and different values.
    first = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + first * second
    write(folder / name / f"part-{i}.parquet", first, second, 1000, age=age)
if is_second:
    part("rewritten", 0, -5000, age=600)
else:
    for name in names:
        for i in range(8):
            # The best file is listed last.
            part(name, i, (7 - i) * 1000)
    for i in range(6):
        long_ago = dt.datetime(1700, 1, 1) + dt.timedelta(days=50 * i)
        write(folder / "old" / f"{i}.parquet", long_ago, dt.timedelta(minutes=7), 2000, pad=True)

spark = start("local[1]", settings={
    "spark.driver.extraJavaOptions": f"{quiet['spark.driver.extraJavaOptions']} -Duser.timezone={zone}",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
})
def keep_in(name):
    path = folder / "statistics" / name
    spark.conf.set("spark.dynamicFilters.stats.path", path.as_uri() if is_second else str(path))
def newest_scan():
    scans = sdf.scans(spark).collect()
    (scan,) = [s for s in scans if s.query_id == max(s.query_id for s in scans)]
    return scan

runs = {}
for name in names:
    keep_in(name)
    spark.read.parquet(str(folder / name)).createOrReplaceTempView("v")
    query = "SELECT t, id FROM v ORDER BY t LIMIT 5"
    with sdf.conf(spark).override(enabled=False):
        expected = spark.sql(query).collect()
    for _ in range(2):
        same, scan = spark.sql(query).collect() == expected, newest_scan()
        found = [same, scan.row_groups_pruned, scan.files_unopened, scan.bytes_total]
        runs.setdefault(name, []).append(dict(zip(("same", "pruned", "unopened", "bytes"), found)))
print("RUNS", json.dumps(runs))

keep_in("old")
spark.read.parquet(str(folder / "old")).createOrReplaceTempView("v")
first = "SELECT min(t) FROM v WHERE input_file_name() LIKE '%3.parquet'"
micros = spark.sql(f"SELECT unix_micros(({first}))").first()[0]
since = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)
with sdf.create_filter(spark, "one", "timestamp") as one:
    one.update(sdf.between(since, since))
    for _ in range(2):
        rows = len(spark.sql("SELECT * FROM v WHERE dynamic_filter('one', t)").collect())
print("OLD", rows, newest_scan().files_unopened)

if not is_second:
    keep_in("partitions")
    rows = "SELECT id, id % 10 AS v, id DIV 1000 AS p FROM range(4000)"
    spark.sql(f"CREATE TABLE t USING parquet PARTITIONED BY (p) AS {rows}")
    for file in (folder / "warehouse").rglob("*.parquet"):
        os.utime(file, (1.7e9, 1.7e9))
    spark.catalog.refreshTable("t")
    for where in ("p < 2", "p > 1", "p = 3"):
        spark.sql(f"SELECT id, v FROM t WHERE {where} ORDER BY id DESC LIMIT 3").collect()
spark.stop()
"""


def _run(folder: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    out = run_application(_CODE, folder, *arguments, own_process=True)
    # Spark rebases old timestamps of files that name no zone by the zone of the JVM.
    assert value(out, "OLD") == "1 5", out
    runs: dict[str, list[dict[str, Any]]] = json.loads(value(out, "RUNS"))
    assert all(run["same"] for of_table in runs.values() for run in of_table), out
    return runs


def test_the_first_run_of_an_application_knows_what_another_learned(tmp_path: Path) -> None:
    runs = _run(tmp_path, "UTC", "first")
    for first, repeated in runs.values():
        # INT96 has no statistics in footers: nothing orders the files of a first run.
        assert first["unopened"] < 7
        assert repeated["unopened"] == 7
    # A table has one file of statistics, though the queries read different partitions.
    for name in ("kept", "partitions"):
        assert len(list((tmp_path / "statistics" / name).iterdir())) == 1
    again = _run(tmp_path, "UTC", "second")
    assert again["kept"][0] == runs["kept"][1]
    # The data file that was rewritten with better rows is read.
    assert again["rewritten"][0]["unopened"] < 8
    # What was learned under another time zone of the JVM is not used.
    elsewhere = _run(tmp_path, "America/Los_Angeles", "second")
    assert elsewhere["kept"][0]["unopened"] < 7

"""What tasks send to the driver counts in spark.driver.maxResultSize: a query must not fail for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.applications import run_application, value

# Applications of their own: the mode of the suite makes no difference.
pytestmark = [pytest.mark.timeout(170), pytest.mark.exhaustive]

_PREAMBLE = """
import os, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
def answer(query, enabled):
    spark.conf.set("spark.dynamicFilters.enabled", enabled)
    try:
        return str(spark.sql(query).collect())
    except Exception as e:
        return "failed" if "maxResultSize" in str(e) or "TaskResultLost" in str(e) else str(e)
def write(name, table, files=1, **options):
    (folder / name).mkdir()
    rows = table.num_rows // files
    for i in range(files):
        path = folder / name / f"{i}.parquet"
        pq.write_table(table.slice(i * rows, rows), path, **options)
        # Long ago: what was learned of files that have just been written is not kept.
        os.utime(path, (time.time() - 3600,) * 2)
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
"""


def test_keys_do_not_make_the_results_of_a_broadcast_too_large(tmp_path: Path) -> None:
    # Six keys: with them the results of a build side of 73 % were too large once.
    code = """
spark = start("local[2]", settings={"spark.driver.maxResultSize": "3m"})
rows = 24_000
def wide(i):
    return np.random.default_rng(i).integers(0, 2**60, rows)
pads = [np.random.default_rng(i).bytes(40).hex() for i in range(rows)]
table = pa.table({f"a{i}": wide(i) for i in range(6)} | {"pad": pads})
for name in ("build", "probe"):
    write(name, table, files=2, row_group_size=2_000)
keys = " AND ".join(f"x.a{i} = y.a{i}" for i in range(6))
def join(percent, enabled):
    build = f"(SELECT * FROM build WHERE a0 % 100 < {percent})"
    select = "SELECT /*+ BROADCAST(y) */ count(*), max(y.pad)"
    return answer(f"{select} FROM probe x JOIN {build} y ON {keys}", enabled)
for percent in (60, 75, 90, 100):
    print(percent, join(percent, False) == join(percent, True))
print("LAST", join(100, False))
print("FILTERS", sum(f.state == "ready" for f in sdf.filters(spark).collect()))
spark.stop()
"""
    out = run_application(_PREAMBLE + code, tmp_path, seconds=120)
    assert [value(out, str(percent)) for percent in (60, 75, 90, 100)] == ["True"] * 4, out
    # So the largest of these was too large by itself.
    assert value(out, "LAST") == "failed", out
    assert int(value(out, "FILTERS")) >= 3 * 6, out


def test_long_strings_and_many_files_do_not_make_results_too_large(tmp_path: Path) -> None:
    code = """
spark = start("local[2]", settings={
    "spark.driver.maxResultSize": "1m", "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "1",
})
long = pa.array([c * 700_000 for c in "bcdefghi"])
write("longs", pa.table({"s": long, "i": range(8)}), files=8)
write("small", pa.table({"s": long, "f": range(8)}), files=2)
write("urls", pa.table({
    "id": range(2_000),
    "s": [f"https://example.org/{i * 7919 % 1_000_003:07}/" + "p" * 250 for i in range(2_000)],
}), files=400, row_group_size=1, use_dictionary=False)
def compare(name, query, times=1):
    expected = answer(query, False)
    found = [answer(query, True) for _ in range(times)]
    print(name, expected != "failed" and found == [expected] * times, expected[:60], [f[:300] for f in found])
def of_newest(column):
    tables = "dynamic_filters()" if column == "reason" else "dynamic_filter_scans()"
    newest = "(SELECT max(query_id) FROM dynamic_filters())"
    return [r[0] for r in spark.sql(f"SELECT {column} FROM {tables} WHERE query_id = {newest}").collect()]
join = "SELECT count(*) FROM longs a JOIN small b ON a.s = b.s WHERE b.f < 5"
for threshold in ("-1", "100m"):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    compare(f"JOIN {threshold}", join)
    print(f"REASON {threshold}", of_newest("reason"))
compare("TOPK", "SELECT sum(length(s)) FROM (SELECT s FROM longs ORDER BY s LIMIT 1)")
compare("MINMAX", "SELECT length(min(s)), length(max(s)) FROM longs")
compare("URLS", "SELECT id FROM urls ORDER BY s LIMIT 3", times=3)
print("SCANS", of_newest("row_groups_pruned"), of_newest("map_keys(reasons)"))
spark.stop()
"""
    out = run_application(_PREAMBLE + code, tmp_path, seconds=150)
    for name in ("JOIN -1", "JOIN 100m", "TOPK", "MINMAX", "URLS"):
        assert value(out, name).startswith("True"), out
    for threshold in ("-1", "100m"):
        assert "too long to be sent" in value(out, f"REASON {threshold}"), out
    # The bound still skips row groups; what did not fit is not known to the next query.
    assert "[0]" not in value(out, "SCANS"), out
    assert "not all statistics were sent" in value(out, "SCANS"), out

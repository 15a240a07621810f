"""No process of an application listens on more ports with the plugin than without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.applications import run_application, value

pytestmark = pytest.mark.timeout(600)

_APPLICATION = """
import contextlib, os
from pyspark.sql import SparkSession

def listening():
    # Sockets in state LISTEN (0A) by their inodes.
    rows = [line.split() for f in ("tcp", "tcp6") for line in open(f"/proc/net/{f}").readlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}

def ports(pid, inodes):
    try:
        links = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return 0
    return sum(link.startswith("socket:[") and link[8:-1] in inodes for link in links)

def parents():
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])

def ports_of_all():
    inodes, found, of = listening(), {os.getpid()}, dict(parents())
    while new := {pid for pid, parent in of.items() if parent in found} - found:
        found |= new
    return sorted(n for n in (ports(pid, inodes) for pid in found) if n)

def run(spark):
    table = str(folder / "numbers")
    spark.range(10000).write.mode("overwrite").parquet(table)
    numbers = spark.read.parquet(table)
    numbers.orderBy("id").limit(3).collect()
    numbers.join(spark.range(5).hint("merge"), "id").collect()

cluster, settings = "local-cluster[1,1,1024]", {"spark.sql.shuffle.partitions": "1"}
stock = SparkSession.builder.master(cluster).config(map=quiet | settings).getOrCreate()
run(stock)
print("STOCK", ports_of_all())
stock.stop()
spark = start(cluster, settings=settings)
run(spark)
print("PLUGIN", ports_of_all())
print("FIRED", bool(sdf.filters(spark).where("generation > 0").count()))
"""


def test_plugin_opens_no_port(spark_mode: str, tmp_path: Path) -> None:
    if spark_mode != "classic":
        pytest.skip("it starts Spark by itself: the mode of the suite makes no difference")
    printed = run_application(_APPLICATION, tmp_path, seconds=500)
    stock = json.loads(value(printed, "STOCK"))
    # The driver, and the executor.
    assert len(stock) == 2, stock
    assert json.loads(value(printed, "PLUGIN")) == stock
    assert value(printed, "FIRED") == "True"

"""The plugin's counters in Spark's metrics system, in a classic session and on a Spark Connect server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.applications import run_application, value

pytestmark = pytest.mark.timeout(400)

# The same for both: the servlet's settings, the queries, and the counters as the servlet shows them.
_SHARED = """
import re, time
from support import ui
from spark_dynamic_filters.testing._ports import free_port
port = free_port()
servlet = {
    "spark.ui.enabled": "true", "spark.ui.port": str(port), "spark.metrics.namespace": "shop",
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}
def queries(spark):
    table = str(folder / "numbers")
    spark.range(0, 200000, 1, 4).selectExpr("id", "string(id) AS text").write.parquet(table)
    numbers = spark.read.parquet(table)
    numbers.where("id > 5").count()
    numbers.orderBy("id").limit(3).collect()
    numbers.orderBy("id").limit(3).collect()
    spark.conf.set("spark.dynamicFilters.enabled", "false")
    numbers.orderBy("id").limit(3).collect()
def metrics():
    status, text = ui.get(f"http://127.0.0.1:{port}/metrics/prometheus")
    name = r"metrics_shop_driver_plugin_org_dynamicfilters_DynamicFiltersPlugin_(\\w+)_Count"
    return {n: int(v) for n, v in re.findall(name + r'\\{type="counters"\\} (\\d+)', text)}
def tell():
    # The end of a query may come after its rows.
    until = time.monotonic() + 60
    while metrics().get("queriesFiltered", 0) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    print("METRICS", json.dumps(metrics()))
"""

_CLASSIC = """
spark = start("local[2]", settings=servlet)
queries(spark)
scans = sdf.scans(spark).selectExpr(
    "sum(bytes_total)", "sum(bytes_total - bytes_read - bytes_read_again)", "sum(rows_pruned)").first()
tell()
print("SCANS", json.dumps(list(scans)))
"""

_CONNECT = """
from pyspark.sql import SparkSession
from spark_dynamic_filters.testing._connect_server import ConnectServer
server = ConnectServer({**{k: v for k, v in quiet.items() if "Memory" not in k}, **servlet})
spark = SparkSession.builder.remote(server.url).getOrCreate()
queries(spark)
tell()
spark.stop()
server.stop()
"""


@pytest.fixture(autouse=True)
def _once(spark_mode: str) -> None:
    if spark_mode != "classic":
        pytest.skip("each test starts Spark by itself: the mode of the suite makes no difference")


def _counters(printed: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(value(printed, "METRICS"))
    return found


def test_counters_of_a_classic_session(tmp_path: Path) -> None:
    printed = run_application(_SHARED + _CLASSIC, tmp_path)
    counters = _counters(printed)
    total, spared, rows = json.loads(value(printed, "SCANS"))
    # Neither the plain query nor that without filters counts.
    assert counters["queriesFiltered"] == counters["queriesHelped"] == 2
    assert counters["queriesFailedOpen"] == 0
    assert counters["waitMillis"] == 0
    assert (counters["bytesTotal"], counters["bytesSpared"], counters["rowsSpared"]) == (total, spared, rows)
    assert spared > 0
    assert rows > 0


def test_counters_of_a_connect_server(tmp_path: Path) -> None:
    counters = _counters(run_application(_SHARED + _CONNECT, tmp_path, own_process=True))
    assert counters["queriesHelped"] == 2
    assert counters["bytesSpared"] > 0

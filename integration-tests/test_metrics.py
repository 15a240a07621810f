"""The plugin's counters in Spark's metrics system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.applications import run_application, value

# It starts Spark by itself: the mode of the suite makes no difference.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(400)]

_APPLICATION = """
import re, time
from support import ui
sink = "spark.metrics.conf.*.sink.prometheusServlet"
spark = start("local[2]", settings={
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.metrics.namespace": "shop",
    f"{sink}.class": "org.apache.spark.metrics.sink.PrometheusServlet", f"{sink}.path": "/metrics/prometheus",
})
port = spark.sparkContext.uiWebUrl.rsplit(":", 1)[1]
table = str(folder / "numbers")
spark.range(0, 200000, 1, 4).selectExpr("id", "string(id) AS text").write.parquet(table)
numbers = spark.read.parquet(table)
numbers.where("id > 5").count()
numbers.orderBy("id").limit(3).collect()
numbers.orderBy("id").limit(3).collect()
spark.conf.set("spark.dynamicFilters.enabled", "false")
numbers.orderBy("id").limit(3).collect()
scans = sdf.scans(spark).selectExpr(
    "sum(bytes_total)", "sum(bytes_total - bytes_read - bytes_read_again)", "sum(rows_pruned)").first()
def metrics():
    status, text = ui.get(f"http://127.0.0.1:{port}/metrics/prometheus")
    name = r"metrics_shop_driver_plugin_org_dynamicfilters_DynamicFiltersPlugin_(\\w+)_Count"
    return {n: int(v) for n, v in re.findall(name + r'\\{type="counters"\\} (\\d+)', text)}
# The end of a query may come after its rows.
until = time.monotonic() + 60
while metrics().get("queriesFiltered", 0) < 2 and time.monotonic() < until:
    time.sleep(0.2)
print("METRICS", json.dumps(metrics()))
print("SCANS", json.dumps(list(scans)))
"""


def test_counters(tmp_path: Path) -> None:
    printed = run_application(_APPLICATION, tmp_path)
    counters = json.loads(value(printed, "METRICS"))
    total, spared, rows = json.loads(value(printed, "SCANS"))
    # Neither the plain query nor that without filters counts.
    assert counters["queriesFiltered"] == counters["queriesHelped"] == 2
    assert counters["queriesFailedOpen"] == 0
    assert counters["waitMillis"] == 0
    assert (counters["bytesTotal"], counters["bytesSpared"], counters["rowsSpared"]) == (total, spared, rows)
    assert spared > 0
    assert rows > 0

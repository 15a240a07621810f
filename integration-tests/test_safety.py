"""What others may see: ports, messages on the wire, one session's filters in another, values in reports and
logs. And that an application leaves nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import tables
from support.applications import LOG, run_application, value

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

# Values that are in no query text: the tenth best key, and the keys of a join's build side.
_TENTH = 4815162342
_LEAST, _GREATEST = 7700770077, 7700880088


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables `fact` and `few` whose filters would show the values above."""
    folder = tmp_path_factory.mktemp("values")
    best = [_TENTH - 9 + i for i in range(10)]
    others = [7_700_000_000 + i * 1_000 for i in range(4_000)]
    keys = [*others[:2_000], *best, *others[2_000:]]
    payload = [f"payload {i}" for i in range(len(keys))]
    tables.write(pa.table({"k": pa.array(keys, pa.int64()), "p": payload}), folder / "fact")
    (folder / "few").mkdir()
    few = pa.table({"j": pa.array([_LEAST, 7_700_800_000, _GREATEST], pa.int64()), "w": [1, 2, 3]})
    pq.write_table(few, folder / "few" / "part-0.parquet")
    return folder


@pytest.mark.client
@pytest.mark.parametrize("show", [True, False])
def test_values_in_reports_and_plans(spark: SparkSession, data: Path, show: bool) -> None:
    for name in ("fact", "few"):
        spark.read.parquet(str(data / name)).createOrReplaceTempView(name)
    with sdf.conf(spark).override(**{"report.showValues": show}):
        topk = sdf.analyze(spark.sql("SELECT * FROM fact ORDER BY k LIMIT 10"))
        join = sdf.analyze(spark.sql("SELECT /*+ MERGE(few) */ * FROM fact JOIN few ON k = j"))
        executors = spark.sql("SELECT * FROM dynamic_filter_executors()").collect()
        queries = spark.sql("SELECT * FROM dynamic_filter_queries()").collect()[-2:]
        filters = sdf.filters(spark).collect()
    assert topk.fired()
    assert any(f["generation"] for f in join.filters)
    ids = {f["query_id"] for f in [*topk.filters, *join.filters]}
    texts = [str(topk), str(join), topk.plan, join.plan, *map(str, executors), *map(str, queries)]
    texts += [str(f) for f in filters if f["query_id"] in ids]
    # On a cluster the bound may come to rest above the tenth value: a process shows the tightest it heard of.
    seen = [v for v in (_TENTH, _LEAST, _GREATEST) if any(str(v) in text for text in texts)]
    assert {_LEAST, _GREATEST} <= set(seen) if show else not seen, seen
    if not show:
        assert any("hidden" in f["expression"] for f in [*topk.filters, *join.filters])


@pytest.mark.core
@pytest.mark.client
def test_sessions_do_not_see_each_other(
    spark: SparkSession, data: Path, new_session: Callable[[], SparkSession]
) -> None:
    other = new_session()
    spark.read.parquet(str(data / "fact")).orderBy("k").limit(10).collect()
    assert sdf.filters(spark).count() > 0
    for function in ("filters", "filter_scans", "filter_executors", "filter_queries"):
        rows = other.sql(f"SELECT * FROM dynamic_{function}()").collect()
        mine = [r for r in rows if str(_TENTH) in str(r) or "fact" in str(r)]
        assert not mine, function
    # The plan of one is not shared with the other either: a view of the same name is another table.
    other.read.parquet(str(data / "few")).createOrReplaceTempView("fact")
    assert [r.j for r in other.sql("SELECT * FROM fact ORDER BY j LIMIT 1").collect()] == [_LEAST]
    assert spark.conf.get("spark.dynamicFilters.enabled") == "true"
    sdf.conf(other).enabled = False
    assert sdf.conf(spark).enabled is True


# One application for all tests below: the second of a process whose first is stock Spark.
_APPLICATION = """
import time, urllib.request
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from spark_dynamic_filters._jar import FAULTS_ENABLED
from support.ports import listening
cluster = "local-cluster[2,1,1024]"
quiet |= {
    FAULTS_ENABLED: "false", "spark.jars": sdf.jar_path(), "spark.ui.enabled": "true", "spark.ui.port": "0",
    "spark.authenticate": "true", "spark.authenticate.secret": "for this test",
    "spark.network.crypto.enabled": "true", "spark.executor.syncLogLevel.enabled": "true",
    "spark.sql.shuffle.partitions": "2", "spark.sql.files.maxPartitionBytes": "16k",
    "spark.sql.files.openCostInBytes": "16k", "spark.dynamicFilters.report.showValues": "false",
}
topk = "SELECT * FROM fact ORDER BY k LIMIT 10"
join = "SELECT /*+ MERGE(few) */ * FROM fact JOIN few ON k = j"
def run(spark):
    for name in ("fact", "few"):
        spark.read.parquet(str(Path(sys.argv[2]) / name)).createOrReplaceTempView(name)
    return [sorted(spark.sql(query).collect()) for query in (topk, topk, topk, join)]
stock = SparkSession.builder.master(cluster).config(map=quiet).getOrCreate()
expected = run(stock)
print("STOCK", listening())
stock.stop()
spark = start(cluster)
# A shell's log shows warnings only until the level changes, and INFO is what Spark takes it for.
for level in ("WARN", "INFO"):
    spark.sparkContext.setLogLevel(level)
print("SAME", run(spark) == expected)
print("PLUGIN", listening())
counted = counters(spark)
print("RECEIVED", counted["received"])
print("SENT", counted["sent"])
print("FAILED", counted["sendFailed"] + counted["failures"] + counted["refusedMalformed"])
print("EXECUTORS", len({r.executor_id for r in spark.sql("SELECT * FROM dynamic_filter_live()").collect()}))
filters = sdf.filters(spark).collect()
print("BUILT", len([f for f in filters if f.generation]))
app, ui = spark.sparkContext.applicationId, spark.sparkContext.uiWebUrl
rest = f"{ui}/api/v1/applications/{app}"
pages = [f"{ui}/SQL/", f"{rest}/sql?details=true&planDescription=true&length=1000", f"{rest}/stages",
         f"{ui}/environment/"]
pages += [f"{ui}/SQL/execution/?id={f.query_id}" for f in filters]
text = "".join(urllib.request.urlopen(page, timeout=20).read().decode() for page in pages)
print("PLANS", text.count("DynamicFilter#"))
logs = sorted(Path(_find_spark_home(), "work", app).glob("*/stderr"))
log = "".join(f.read_text(errors="replace") for f in logs)
print("LOGS", len(logs), len(log) > 1000)
for v in sys.argv[3:]:
    print("VALUE", v, f"ui={v in text} logs={v in log}")
jvm = SparkContext._jvm
loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
executions = loader.loadClass("org.dynamicfilters.state.Executions$").getField("MODULE$").get(None).instance()
spark.stop()
def threads():
    names = [t.getName() for t in jvm.java.lang.Thread.getAllStackTraces().keySet()]
    return [n for n in names if n.startswith("dynamic-filters-")]
until = time.monotonic() + 5
while threads() and time.monotonic() < until:
    time.sleep(0.1)
print("LEFT", threads(), executions.live())
"""
_HIDDEN = [str(v) for v in (_TENTH, _LEAST, _GREATEST)]


@pytest.fixture(scope="module")
def printed(spark_mode: str, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What an application printed that has authentication, encryption and a UI; and the driver's log."""
    if spark_mode != "local-cluster":
        pytest.skip("an application of its own: once is enough")
    folder = tmp_path_factory.mktemp("application")
    # A log level stays with the JVM.
    out = run_application(_APPLICATION, folder, str(data), *_HIDDEN, seconds=270, own_process=True)
    return out, (folder / LOG).read_text(encoding="utf-8", errors="replace")


def test_no_process_listens_on_more_ports_than_without_the_plugin(printed: tuple[str, str]) -> None:
    out, _ = printed
    # The driver's, and those of two executors.
    assert len(json.loads(value(out, "STOCK"))) == 3, out
    assert value(out, "PLUGIN") == value(out, "STOCK")


def test_bounds_are_exchanged_with_authentication_and_encryption(printed: tuple[str, str]) -> None:
    out, _ = printed
    assert value(out, "SAME") == "True"
    assert int(value(out, "RECEIVED")) > 0
    assert int(value(out, "SENT")) > 0
    assert value(out, "FAILED") == "0"
    assert value(out, "EXECUTORS") == "3"


def test_values_in_logs_and_ui(printed: tuple[str, str]) -> None:
    out, log = printed
    assert int(value(out, "BUILT")) >= 2
    assert int(value(out, "PLANS")) > 0
    assert value(out, "LOGS") == "2 True"
    assert "INFO" in log
    for v in _HIDDEN:
        assert value(out, f"VALUE {v}") == "ui=False logs=False"
        assert v not in log, [line for line in log.splitlines() if v in line][:5]


def test_nothing_is_left_when_the_driver_has_stopped(printed: tuple[str, str]) -> None:
    assert value(printed[0], "LEFT") == "[] 0"

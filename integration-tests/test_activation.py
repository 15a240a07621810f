"""Ways to switch the plugin on, each in a process of its own, and the plan it leaves alone."""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters._errors import EXTENSIONS_CLASS
from support import joins, jvm
from support.applications import LOG, run_application, value

# Tests start Spark by themselves: the mode of the suite makes no difference.
pytestmark = pytest.mark.exhaustive

# Of an application without faults: its settings, and what it prints at the end.
BEGIN = """
from pyspark.sql import SparkSession
from spark_dynamic_filters._jar import FAULTS_ENABLED
del quiet[FAULTS_ENABLED]
"""
SHOW = """
print("STATUS", sdf.status(spark).activation, sdf.status(spark).active)
print("FIRED", sdf.analyze(spark.read.parquet(sys.argv[2]).orderBy("id").limit(5)).fired())
spark.stop()
"""


def _run(code: str, folder: Path, *arguments: str) -> tuple[str, str]:
    """Runs an application in a process of its own; returns what it printed, and its log."""
    printed = run_application(BEGIN + code, folder, *arguments, own_process=True)
    return printed, (folder / LOG).read_text(encoding="utf-8", errors="replace")


@pytest.mark.core
def test_status(spark: SparkSession) -> None:
    status = sdf.status(spark)
    assert status.version == sdf.__version__
    assert status.activation == "plugin"
    assert status.active
    assert status.spark_version == spark.version


# After SHOW: another application in the same process, whose settings are wrong.
WRONG = """
try:
    {builder}.config("spark.dynamicFilters.topk.maxLimits", "5").getOrCreate()
except Exception as error:
    print("ERROR<", error, ">ERROR")
"""


# Spark 4.1's Connect server logs errors of its session manager with stacks.
SESSION_MANAGER = (
    r"\tat org\.apache\.spark\.sql\.connect\.service\.SparkConnectSessionManager.*\n(\tat .*\n)*"
)


def _assert_refused(printed: str, log: str) -> None:
    """One error with its class and no stack: in what Python raises and in the log."""
    (error,) = re.findall(r"ERROR<(.*?)>ERROR", printed, re.DOTALL)
    assert "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.topk.maxLimits: no such setting" in error
    assert "\tat " not in printed + re.sub(SESSION_MANAGER, "", log)


@pytest.mark.core
def test_connect_in_one_process(all_types_path: Path, tmp_path: Path) -> None:
    builder = "sdf.configure(SparkSession.builder.remote('local[2]').config(map=quiet))"
    code = f"""
import os
os.environ["SPARK_TESTING"] = "1"
spark = {builder}.getOrCreate()
print("CONNECT", sdf.status(spark).connect)
"""
    printed, log = _run(code + SHOW + WRONG.format(builder=builder), tmp_path, str(all_types_path))
    _assert_refused(printed, log)
    assert value(printed, "CONNECT") == "True"
    # PySpark sets in the session what the server was started with, and Spark refuses that.
    assert not re.search(r"Failed to set spark\.(jars|sql\.extensions)", log), log
    assert value(printed, "STATUS") == "extensions True"
    assert value(printed, "FIRED") == "True"


@pytest.fixture(scope="module")
def sessions(all_types_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a process prints and logs that has a session with an extension of others, one in which wrong keys
    are set, one with our extension alone, and one with wrong settings. It has the jar that injects faults.
    """
    # The set stands for Delta's extension: it is a function of one argument, and does nothing when applied.
    code = f"""
from spark_dynamic_filters._jar import faults_jar_path
from spark_dynamic_filters.testing import FaultsNotEnabled, faults
quiet |= {{"spark.jars": faults_jar_path()}}
def begin(**more):
    return sdf.configure(SparkSession.builder.master("local[2]").config(map=quiet | more)).getOrCreate()
table = lambda: spark.read.parquet(sys.argv[2]).orderBy("id").limit(5)
spark = begin(**{{"spark.sql.extensions": "scala.collection.mutable.HashSet"}})
print("EXTENSIONS", spark.conf.get("spark.sql.extensions"))
print("FIRST", sdf.analyze(table()).fired())
spark.stop()
spark = begin()
print("SECOND", sdf.analyze(table()).fired())
for key in ("spark.dynamicFilters.enable", "spark.dynamicfilters.enabled", "spark.dynamicAllocation.enable"):
    spark.conf.set(key, "false")
for _ in range(3):
    table().collect()
try:
    with faults(spark): pass
except FaultsNotEnabled as e:
    print("REFUSED", e)
for key, value in {{"enabled": "true", "spec": "lost=1"}}.items():
    try:
        spark.sql(f"SET spark.dynamicFilters.testing.faults.{{key}}={{value}}")
    except Exception as e:
        print("SET", key, str(e).replace("\\n", " "))
counters = [r.name for r in spark.sql("SELECT * FROM dynamic_filter_counters()").collect()]
print("COUNTERS", [name for name in counters if name.startswith(("fault", "seen"))])
spark.stop()
alone = quiet | {{"spark.plugins": "", "spark.sql.extensions": "{EXTENSIONS_CLASS}"}}
spark = SparkSession.builder.master("local[2]").config(map=alone).getOrCreate()
"""
    wrong = WRONG.format(builder="sdf.configure(SparkSession.builder.master('local[2]').config(map=quiet))")
    return _run(code + SHOW + wrong, tmp_path_factory.mktemp("sessions"), str(all_types_path))


def test_keys_that_spark_takes_unasked(sessions: tuple[str, str]) -> None:
    told = re.findall(r"WARN \w+: Dynamic filters: (.*) It has no effect", sessions[1])
    meant = "no such setting; did you mean spark.dynamicFilters.enabled?"
    assert sorted(told) == [
        f"spark.dynamicFilters.enable: {meant}",
        f"spark.dynamicfilters.enabled: {meant}",
    ]


def test_session_after_session(sessions: tuple[str, str]) -> None:
    printed, _ = sessions
    assert "scala.collection.mutable.HashSet" in value(printed, "EXTENSIONS")
    assert value(printed, "FIRST") == value(printed, "SECOND") == "True"
    # With the extension alone.
    assert value(printed, "STATUS") == "extensions True"
    assert value(printed, "FIRED") == "True"
    _assert_refused(*sessions)


def test_nobody_can_inject_faults_into_a_normal_application(sessions: tuple[str, str]) -> None:
    """The jar alone injects nothing."""
    printed, _ = sessions
    assert "--conf spark.dynamicFilters.testing.faults.enabled=true" in value(printed, "REFUSED")
    assert "CANNOT_MODIFY" in value(printed, "SET enabled")
    assert "testing.faults.spec: no such setting" in value(printed, "SET spec")
    assert value(printed, "COUNTERS") == "[]"


def test_missing_plugin_and_disabled_plan(
    spark: SparkSession, t: str, all_types_path: Path, tmp_path: Path
) -> None:
    queries = [
        "SELECT * FROM t WHERE c_int > 0 ORDER BY id LIMIT 5",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.c_int ORDER BY a.id LIMIT 5",
        "SELECT grp, max(id) FROM t GROUP BY grp",
    ]
    code = f"""
quiet |= {{"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}}
spark = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
try:
    sdf.status(spark)
except sdf.PluginNotLoaded as error:
    print("MISSING", "--jars" in str(error))
try:
    sdf.configure(SparkSession.builder)
except sdf.PluginNotLoaded as error:
    print("LATE", "running JVM" in str(error))
spark.read.parquet(sys.argv[2]).createOrReplaceTempView("t")
for query in {queries!r}:
    print("PLAN<", spark.sql("EXPLAIN EXTENDED " + query).collect()[0][0], ">PLAN")
"""
    printed, _ = _run(code, tmp_path, str(all_types_path))
    assert value(printed, "MISSING") == value(printed, "LATE") == "True"
    stock = re.findall(r"PLAN<(.*?)>PLAN", printed, re.DOTALL)
    # What is interpreted is explained without its stages of generated code.
    with sdf.conf(spark).override(enabled=False), joins.settings(spark, jvm.GENERATED):
        ours = [str(spark.sql("EXPLAIN EXTENDED " + query).collect()[0][0]) for query in queries]
    assert len(stock) == len(ours)
    for expected, actual in zip(stock, ours, strict=True):
        difference = list(unified_diff(_without_numbers(expected), _without_numbers(actual), lineterm=""))
        assert not difference, "\n".join(difference)


def _without_numbers(plan: str) -> list[str]:
    """The plan's lines without the ids of expressions and operators, which Spark counts per process."""
    return re.sub(r"#\d+L?|plan_id=\d+", "#", plan).strip().splitlines()

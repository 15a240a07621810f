"""Ways to switch the plugin on, each in a process of its own, and the plan it leaves alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters._errors import EXTENSIONS_CLASS
from support import joins, jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_SECONDS = 120

PREAMBLE = """
import sys
import spark_dynamic_filters as sdf
from pyspark.sql import SparkSession
quiet = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": sys.argv[2],
}
"""
PREAMBLE += f"quiet |= {jvm.QUICK!r}\n"
SHOW = """
print("STATUS", sdf.status(spark).activation, sdf.status(spark).active, flush=True)
print("FIRED", sdf.analyze(spark.read.parquet(sys.argv[1]).orderBy("id").limit(5)).fired(), flush=True)
spark.stop()
"""


def _run(
    code: str, data: Path, folder: Path, check: bool = True, errors: bool = False, **environment: str
) -> str:
    """Runs Python code in a process of its own; returns what it printed, `errors` its standard error too."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, str(data), str(folder)],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env=os.environ | environment,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr[-4000:]
    return done.stdout + (done.stderr if errors else "")


@pytest.fixture(scope="module", autouse=True)
def _once(spark_mode: str) -> None:
    if spark_mode != "classic":
        pytest.skip("each test starts Spark by itself: the mode of the suite makes no difference")


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


def _assert_refused(out: str) -> None:
    """One error with its class and no stack: in what Python raises and in the log."""
    (error,) = re.findall(r"ERROR<(.*?)>ERROR", out, re.DOTALL)
    assert "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.topk.maxLimits: no such setting" in error
    assert "\tat " not in out


def test_extension_alone(all_types_path: Path, tmp_path: Path) -> None:
    builder = "SparkSession.builder.master('local[2]').config(map=quiet)"
    code = f"""
quiet |= {{"spark.jars": sdf.jar_path(), "spark.sql.extensions": "{EXTENSIONS_CLASS}"}}
spark = {builder}.getOrCreate()
"""
    out = _run(code + SHOW + WRONG.format(builder=builder), all_types_path, tmp_path, errors=True)
    assert "STATUS extensions True" in out
    assert "FIRED True" in out
    _assert_refused(out)


@pytest.mark.core
def test_connect_in_one_process(all_types_path: Path, tmp_path: Path) -> None:
    builder = "sdf.configure(SparkSession.builder.remote('local[2]').config(map=quiet))"
    code = f"""
spark = {builder}.getOrCreate()
print("CONNECT", sdf.status(spark).connect)
"""
    wrong = WRONG.format(builder=builder)
    out = _run(code + SHOW + wrong, all_types_path, tmp_path, errors=True, SPARK_TESTING="1")
    _assert_refused(out)
    assert "CONNECT True" in out
    # PySpark sets in the session what the server was started with, and Spark refuses that.
    assert not re.search(r"Failed to set spark\.(jars|sql\.extensions)", out), out
    assert "STATUS extensions True" in out
    assert "FIRED True" in out


@pytest.fixture(scope="module")
def two_sessions(all_types_path: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a process says that configures one session, with an extension of others, stops it, configures
    another one, sets keys in it that are nobody's, stops it and configures one with wrong settings."""
    # The set stands for Delta's extension: it is a function of one argument, and does nothing when applied.
    code = """
others = {"spark.sql.extensions": "scala.collection.mutable.HashSet"}
table = lambda: spark.read.parquet(sys.argv[1]).orderBy("id").limit(5)
spark = sdf.configure(SparkSession.builder.master("local[2]").config(map=quiet | others)).getOrCreate()
print("EXTENSIONS", spark.conf.get("spark.sql.extensions"))
print("FIRST", sdf.analyze(table()).fired(), flush=True)
spark.stop()
spark = sdf.configure(SparkSession.builder.master("local[2]").config(map=quiet)).getOrCreate()
print("SECOND", sdf.analyze(table()).fired(), flush=True)
for key in ("spark.dynamicFilters.enable", "spark.dynamicfilters.enabled", "spark.dynamicAllocation.enable"):
    spark.conf.set(key, "false")
for _ in range(3):
    table().collect()
spark.stop()
"""
    builder = "sdf.configure(SparkSession.builder.master('local[2]').config(map=quiet))"
    code += WRONG.format(builder=builder)
    return _run(code, all_types_path, tmp_path_factory.mktemp("sessions"), errors=True)


def test_keys_that_spark_takes_unasked(two_sessions: str) -> None:
    told = re.findall(r"WARN \w+: Dynamic filters: (.*) It has no effect", two_sessions)
    meant = "no such setting; did you mean spark.dynamicFilters.enabled?"
    assert sorted(told) == [
        f"spark.dynamicFilters.enable: {meant}",
        f"spark.dynamicfilters.enabled: {meant}",
    ]


def test_plugin_keeps_other_extensions(two_sessions: str) -> None:
    extensions = next(line for line in two_sessions.splitlines() if line.startswith("EXTENSIONS"))
    assert "scala.collection.mutable.HashSet" in extensions
    assert "FIRST True" in two_sessions


def test_session_after_session(two_sessions: str) -> None:
    assert "SECOND True" in two_sessions
    _assert_refused(two_sessions)


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
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("t")
for query in {queries!r}:
    print("PLAN<", spark.sql("EXPLAIN EXTENDED " + query).collect()[0][0], ">PLAN", flush=True)
"""
    out = _run(code, all_types_path, tmp_path)
    assert "MISSING True" in out
    assert "LATE True" in out
    stock = re.findall(r"PLAN<(.*?)>PLAN", out, re.DOTALL)
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

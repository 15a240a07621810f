"""Spark applications of a test's own, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PREAMBLE = """
import json, sys
from pathlib import Path
import spark_dynamic_filters as sdf
from pyspark.sql import SparkSession
folder = Path(sys.argv[1])
quiet = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.executor.memory": "1g",
    "spark.dynamicFilters.testing.faults.enabled": "true", "spark.sql.session.timeZone": "UTC",
}
def start(master, **settings):
    return sdf.configure(
        SparkSession.builder.master(master).config(map=quiet | settings.pop("settings", {}))
    ).getOrCreate()
def counters(spark):
    return {r.name: r.value for r in spark.sql("SELECT * FROM dynamic_filter_counters()").collect()}
"""


def run_application(code: str, folder: Path, *arguments: str, seconds: float = 150) -> str:
    """Runs Python code in a process of its own.

    The code finds `folder` (its working directory), `start(master, settings={...})`, `counters(spark)`, and
    `arguments` from `sys.argv[2]` on.

    Returns:
        What it printed on both streams: Spark's log is on the second one.

    Raises:
        AssertionError: it failed, or took longer than `seconds`.
    """
    script = folder / "application.py"
    script.write_text(_PREAMBLE + code, encoding="utf-8")
    tests = Path(__file__).parents[1]
    try:
        done = subprocess.run(
            [sys.executable, str(script), str(folder), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            env=os.environ
            | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"it took more than {seconds} s:\n{_tail(late.stdout)}") from late
    assert done.returncode == 0, _tail(done.stdout)
    return done.stdout


def value(output: str, name: str) -> str:
    """What the application printed after `name` at the start of a line."""
    found = [line.removeprefix(name).strip() for line in output.splitlines() if line.startswith(name + " ")]
    assert found, f"nothing is printed for {name}:\n{_tail(output)}"
    return found[-1]


def _tail(text: str | bytes | None) -> str:
    return (text.decode(errors="replace") if isinstance(text, bytes) else text or "")[-6000:]

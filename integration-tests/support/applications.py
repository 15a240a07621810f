"""Spark applications of a test's own, each in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_dynamic_filters.testing._connect_server import CLIENT_VARIABLES
from spark_dynamic_filters.testing._ports import free_port

LOG = "application.log"

_PREAMBLE = """
import json, sys
from pathlib import Path
import spark_dynamic_filters as sdf
from pyspark.sql import SparkSession
from support import jvm
folder = Path(sys.argv[1])
quiet = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.executor.memory": "1g",
    "spark.dynamicFilters.testing.faults.enabled": "true", "spark.sql.session.timeZone": "UTC", **jvm.QUICK,
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
        What it printed. Spark's log is in `folder`, in `LOG`.

    Raises:
        AssertionError: it failed, or took longer than `seconds`.
    """
    script = folder / "application.py"
    script.write_text(_PREAMBLE + code, encoding="utf-8")
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), *sys.path])
    log = folder / LOG
    # Sessions of these tests may be a client's; the application's own is what its code says.
    inherited = {name: value for name, value in os.environ.items() if name not in CLIENT_VARIABLES}
    try:
        # Apart, so that no line of the log runs into one that is printed.
        with log.open("wb") as errors:
            done = subprocess.run(
                [sys.executable, str(script), str(folder), *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=seconds,
                env=inherited | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path},
                cwd=folder,
                check=False,
            )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"it took more than {seconds} s:\n{_tail(log)}") from late
    assert done.returncode == 0, f"{done.stdout}\n{_tail(log)}"
    return done.stdout


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[str]:
    """A Spark cluster of processes on this machine: a master, and workers of one core.

    Unlike in local-cluster each worker has a host (127.0.0.2, 127.0.0.3, ...): Spark puts the copy of a slow
    task only where no other attempt of it runs.

    Yields:
        The master's URL.

    Raises:
        AssertionError: it did not start within a minute.
    """
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for i in range(workers):
        own = ["--host", f"127.0.0.{i + 2}", "--work-dir", str(folder / f"work{i}"), "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", *own, "--cores", "1", "--memory", memory, url])
    environment = os.environ | {
        "SPARK_HOME": home,
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    processes = []
    try:
        for i, command in enumerate(commands):
            with (folder / f"process{i}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [str(Path(home, "bin", "spark-class")), *command],
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment,
                    )
                )
            if i == 0:
                _wait_for(port)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the master did not start within a minute")


def value(output: str, name: str) -> str:
    """What the application printed after `name` at the start of a line."""
    found = [line.removeprefix(name).strip() for line in output.splitlines() if line.startswith(name + " ")]
    assert found, f"nothing is printed for {name}:\n{output}"
    return found[-1]


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-6000:]

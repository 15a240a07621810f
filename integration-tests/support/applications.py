"""Spark applications of a test's own, in a process apart from the tests."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import traceback
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing._connect_server import CLIENT_VARIABLES

from . import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "application.log"

#: What a Spark without the UI logs if our part of the UI does something all the same.
_UI_WARNING = "something is not shown"
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.dynamicFilters.testing.faults.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    **jvm.QUICK,
}


def run_application(
    code: str, folder: Path, *arguments: str, seconds: float = 150, own_process: bool = False
) -> str:
    """Runs Python code that starts a Spark application, in a process apart from this one.

    The code finds `folder` (its working directory), `start(master, settings={...})`, `counters(spark)`, and
    `arguments` from `sys.argv[2]` on. One process and one JVM run applications one after the other, because
    most of the time of a short one is spent on starting a JVM and on code that is not compiled yet.

    Args:
        own_process: for code that needs a new JVM: that sets options of it, its class path or its log level,
            or that is about what a new JVM does not know.

    Returns:
        What it printed. Spark's log is in `folder`, in `LOG`.

    Raises:
        AssertionError: it failed, or took longer than `seconds`.
    """
    host = _Host(is_shared=False) if own_process else _shared_host()
    try:
        printed, error = host.run(code, folder, arguments, seconds)
    finally:
        if own_process:
            host.stop()
    log = (folder / LOG).read_text(encoding="utf-8", errors="replace")
    assert not error, f"{printed}\n{error}\n{log[-6000:]}"
    assert _UI_WARNING not in log
    return printed


class _Host:
    """A process that runs the code of one application after another."""

    def __init__(self, is_shared: bool) -> None:
        folder = Path(tempfile.mkdtemp(prefix="applications-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._log = folder / LOG
        self._log.touch()
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._log, is_shared), daemon=True)
        self._process.start()
        other.close()

    def run(self, code: str, folder: Path, arguments: tuple[str, ...], seconds: float) -> tuple[str, str]:
        """What the code printed, and the error that ended it, if any. After an error this process ends."""
        before = self._log.stat().st_size
        self._connection.send((code, str(folder), arguments))
        printed, error = "", f"it took more than {seconds} s"
        if self._connection.poll(seconds):
            try:
                printed, error = self._connection.recv()
            except (EOFError, OSError):
                error = "its process ended"
        with self._log.open("rb") as log:
            log.seek(before)
            (folder / LOG).write_bytes(log.read())
        if error:
            self.stop()
        return printed, error

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def stop(self) -> None:
        self._process.terminate()
        self._process.join(30)


_shared: _Host | None = None


def _shared_host() -> _Host:
    global _shared
    if _shared is None or not _shared.is_alive:
        _shared = _Host(is_shared=True)
    return _shared


def _serve(connection: Connection, log: Path, is_shared: bool) -> None:
    """What the process does: runs code that it is sent until the other side has gone."""
    # The JVM inherits it, too.
    with log.open("ab") as errors:
        os.dup2(errors.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    # Sessions of the tests may be a client's; an application's own is what its code says.
    for name in CLIENT_VARIABLES:
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    os.chdir(log.parent)
    if is_shared:
        # The settings that a JVM is started with are defaults of all applications in it.
        _start("local[1]", _QUIET | {"spark.driver.memory": "2g"}).stop()
    while True:
        try:
            code, folder, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_run(code, Path(folder), arguments))


def _run(code: str, folder: Path, arguments: tuple[str, ...]) -> tuple[str, str]:
    from pyspark import SparkContext

    script = folder / "application.py"
    script.write_text(code, encoding="utf-8")
    sys.argv = [str(script), str(folder), *arguments]
    os.chdir(folder)
    printed, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            # Functions that are defined in __main__ go to Python workers by value.
            exec(compile(code, str(script), "exec"), _names(folder))
    except BaseException:
        error = traceback.format_exc()
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    return printed.getvalue(), error


def _names(folder: Path) -> dict[str, Any]:
    """The names that the code of an application finds."""
    quiet = _QUIET | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    earlier: dict[str, int] = {}

    def start(master: str, settings: dict[str, str] | None = None) -> SparkSession:
        spark = _start(master, quiet | (settings or {}))
        # Counters are the JVM's.
        earlier.update({name: n for name, n in _counters(spark).items() if name not in earlier})
        return spark

    def counters(spark: SparkSession) -> dict[str, int]:
        return {name: n - earlier.get(name, 0) for name, n in _counters(spark).items()}

    modules = {"json": json, "sys": sys, "Path": Path, "sdf": sdf}
    own = {"folder": folder, "quiet": quiet, "start": start, "counters": counters}
    return {"__name__": "__main__", **modules, **own}


def _start(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    return sdf.configure(SparkSession.builder.master(master).config(map=settings)).getOrCreate()


def _counters(spark: SparkSession) -> dict[str, int]:
    return {r.name: r.value for r in spark.sql("SELECT * FROM dynamic_filter_counters()").collect()}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A Spark cluster for an application in this process: a master and two workers of one core, in its JVM.

    Unlike in local-cluster each worker has a host (127.0.0.2, 127.0.0.3): Spark puts the copy of a slow task
    only where no other attempt of it runs.

    Yields:
        The master's URL.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # type: ignore[attr-defined]
    jvm: Any = SparkContext._jvm
    deploy, conf = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf()
    running = [deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()]
    url = f"spark://127.0.0.1:{running[0].address().port()}"
    urls = SparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    urls[0] = url
    for i in (1, 2):
        at, work, number = (f"127.0.0.{i + 1}", 0, 0, 1, 1024), str(folder / "work"), jvm.scala.Some(i)
        begin = deploy.worker.Worker.startRpcEnvAndEndpoint
        running.append(begin(*at, urls, work, number, conf, jvm.scala.Option.empty()))
    try:
        yield url
    finally:
        # Workers that lose their master end the JVM.
        for environment in reversed(running):
            environment.shutdown()
            environment.awaitTermination()


def value(output: str, name: str) -> str:
    """What the application printed after `name` at the start of a line."""
    found = [line.removeprefix(name).strip() for line in output.splitlines() if line.startswith(name + " ")]
    assert found, f"nothing is printed for {name}:\n{output}"
    return found[-1]

"""A Spark Connect server process from the installed PySpark."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path

from .._configure import has_our_jar, items, spark_defaults
from .._errors import PLUGIN_CLASS
from .._jar import faults_jars, jar_path
from ._ports import free_port

_SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0
_LOG_TAIL = 4000

#: They would turn the start of a process of its own into that of a client.
CLIENT_VARIABLES = (
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_API_MODE",
    "PYSPARK_GATEWAY_PORT",
)


class ConnectServer:
    """A server with the plugin on a free port of the loopback interface, as a user would start it.

    Args:
        settings: Spark settings; `spark.master` is local[2] unless given, `spark.plugins` and
            `spark.jars`, from here or else from `spark-defaults.conf`, are extended by the plugin.

    Raises:
        RuntimeError: it did not start within two minutes; the message has the end of its log.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.port = free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        folder = tempfile.mkdtemp(prefix="spark-connect-")
        # Not by `stop`: the log is of use after it.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._log = Path(folder) / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                _command(settings, self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                # An interrupt of the tests must not reach the server before they have closed their sessions.
                start_new_session=True,
            )
        atexit.register(self.stop)
        self._wait_until_listening()

    def stop(self) -> None:
        """Ends the server; at once if it does not do so by itself within half a minute."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_STOP_SECONDS)

    def log(self) -> str:
        """What the server has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _wait_until_listening(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                probe.settimeout(1.0)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        exit_code = self._process.poll()
        self.stop()
        state = (
            f"ended with exit code {exit_code}"
            if exit_code is not None
            else f"was not ready in {_START_SECONDS:.0f} s"
        )
        raise RuntimeError(f"the Spark Connect server {state}; end of its log:\n{self.log()[-_LOG_TAIL:]}")


def _command(settings: Mapping[str, str], port: int) -> list[str]:
    from pyspark.find_spark_home import _find_spark_home

    # Both would take the place of what the file says.
    defaults = spark_defaults()
    given = items(settings.get("spark.jars", defaults.get("spark.jars")))
    jars = [jar for jar in given if not has_our_jar([jar])]
    plugins = items(settings.get("spark.plugins", defaults.get("spark.plugins")))
    # Not start-connect-server.sh: PySpark's wheels have it from Spark 4.3 on only.
    command = [
        str(Path(_find_spark_home()) / "bin" / "spark-submit"),
        "--class",
        _SERVER_CLASS,
        "--jars",
        ",".join(dict.fromkeys([jar_path(), *faults_jars(settings), *jars])),
    ]
    merged = {
        "spark.master": "local[2]",
        **{key: value for key, value in settings.items() if key != "spark.jars"},
        "spark.plugins": ",".join(dict.fromkeys([*plugins, PLUGIN_CLASS])),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    for key, value in merged.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, "spark-internal"]


def _environment() -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k not in CLIENT_VARIABLES}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return environment

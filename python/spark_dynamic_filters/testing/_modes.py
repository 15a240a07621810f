"""Spark applications to test against: one JVM, a driver with two executors, or a Spark Connect server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from .._configure import configure
from .._jar import FAULTS_ENABLED
from ._connect_server import ConnectServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("classic", "local-cluster", "connect")

# Two executors of one core each, with as much memory as local-cluster asks a worker for.
_LOCAL_CLUSTER = "local-cluster[2,1,1024]"
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # Everything stays on this machine, whatever its host name resolves to.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # So that tests can use `faults`.
    FAULTS_ENABLED: "true",
}
# As many attempts for a task as on a cluster.
_LOCAL = "local[2, 4]"


class SparkApplication(Protocol):
    """A running Spark application that hands out sessions."""

    def new_session(self) -> SparkSession:
        """A session with settings and temporary views of its own."""

    def close_session(self, spark: SparkSession) -> None:
        """Ends a session of `new_session`."""

    def stop(self) -> None:
        """Ends the application; returns when its processes have gone."""


def start_application(mode: str, config: Mapping[str, str] | None = None) -> SparkApplication:
    """Starts Spark with the plugin.

    Args:
        mode: "classic" (driver and tasks in one JVM), "local-cluster" (a driver and two executor processes)
            or "connect" (a Spark Connect server process, to which this process is only a client).
        config: further Spark settings; they win over this function's own.

    Raises:
        ValueError: unknown mode.
        RuntimeError: the Connect server did not start; the message has the end of its log.
    """
    settings = {**_DEFAULTS, **(config or {})}
    if mode == "classic":
        return _Driver(_LOCAL, settings)
    if mode == "local-cluster":
        return _Driver(_LOCAL_CLUSTER, {"spark.executor.memory": "1g", **settings})
    if mode == "connect":
        return _Connect({"spark.master": _LOCAL, **settings})
    raise ValueError(f"Spark mode {mode!r}: unknown; valid are {', '.join(MODES)}")


class _Driver:
    """A driver in a JVM of this process."""

    def __init__(self, master: str, settings: dict[str, str]) -> None:
        from pyspark.sql import SparkSession

        # Executors of their own find neither this interpreter nor the Spark that belongs to it by themselves.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Whatever SPARK_API_MODE or the distribution makes the default.
        builder = SparkSession.builder.master(master).config("spark.api.mode", "classic")
        self._first = configure(builder.config(map={**settings})).getOrCreate()

    def new_session(self) -> SparkSession:
        return self._first.newSession()

    def close_session(self, spark: SparkSession) -> None:
        # A classic session has nothing of its own to stop but its views; stop() would end the whole driver.
        for view in spark.sql("SHOW VIEWS").collect():
            if view["isTemporary"]:
                spark.catalog.dropTempView(view["viewName"])

    def stop(self) -> None:
        self._first.stop()


class _Connect:
    """A client of a Spark Connect server."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._server = ConnectServer(settings)

    def new_session(self) -> SparkSession:
        # By this builder, not the Connect client's own: it also turns `pyspark.sql.functions` into Connect's.
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(self._server.url).create()

    def close_session(self, spark: SparkSession) -> None:
        spark.stop()

    def stop(self) -> None:
        self._server.stop()

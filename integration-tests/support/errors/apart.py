"""Errors of other sessions, installations and applications."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _configure, _jar, _status
from spark_dynamic_filters._errors import missing_protobuf, plugin_not_loaded
from spark_dynamic_filters.testing import FaultsNotEnabled, _faults

from .actions import SESSION

FLAGS = (
    '--jars "$(python -m spark_dynamic_filters jar)" '
    "--conf spark.plugins=org.dynamicfilters.DynamicFiltersPlugin"
)
MISSING = "the spark-dynamic-filters plugin is not loaded in this Spark application.\n"


def _raises(error: Callable[[], Exception]) -> Callable[[], object]:
    def throw() -> None:
        raise error()

    return throw


def _patched(where: Any, name: str, value: object, action: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with mock.patch.object(where, name, value):
            action()

    return run


def _without(module: str, action: Callable[[], object]) -> Callable[[], object]:
    """As where a package is not installed."""

    def run() -> None:
        with mock.patch.dict(sys.modules, {module: None}):
            action()

    return run


class _Stopped:
    """A classic session that was stopped."""

    sql = conf = print
    _sc = type("Context", (), {"_jsc": None})


class _Master:
    """A session of this master, as far as `faults` asks it."""

    def __init__(self, master: str) -> None:
        self.conf = {"spark.master": master}


CLIENT: Any = type("Builder", (), {"config": print, "_options": {"spark.remote": "local[2]"}})()
CLASSIC: Any = type("Builder", (), {"config": print, "_options": {"spark.master": "local[*]"}})()

#: What other sessions, installations and applications would give.
APART: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no plugin, classic": (
        _raises(lambda: plugin_not_loaded(connect=False)),
        sdf.PluginNotLoaded,
        MISSING
        + "Create the session with\n  sdf.configure(SparkSession.builder).getOrCreate()\n"
        + "as the first of its Python process (a running JVM takes no further jar),\n"
        + f"or start spark-submit, spark-shell or spark-sql with\n  {FLAGS}",
    ),
    "no plugin, Connect": (
        _raises(lambda: plugin_not_loaded(connect=True)),
        sdf.PluginNotLoaded,
        MISSING
        + f"The plugin belongs to the server: start the Spark Connect server with\n  {FLAGS}\n"
        + "For a server inside this process use\n"
        + '  sdf.configure(SparkSession.builder.remote("local[*]")).getOrCreate()',
    ),
    "another version": (
        lambda: _status.check_versions("9.8.7", 1),
        sdf.VersionMismatch,
        f"the plugin in the Spark application is version 9.8.7 (protocol 1), the Python package "
        f"{sdf.__version__} (protocol 1): `pip install spark-dynamic-filters==9.8.7` here, or start Spark "
        "with this package's jar (`python -m spark_dynamic_filters jar` prints its path)",
    ),
    "another build": (
        lambda: _status.check_versions(sdf.__version__, 99),
        sdf.VersionMismatch,
        "the plugin in the Spark application and the Python package are different builds of version "
        f"{sdf.__version__} (protocol 99 and 1): start Spark with this package's jar "
        "(`python -m spark_dynamic_filters jar` prints its path)",
    ),
    "a stopped session": (
        lambda: sdf.status(_Stopped()),  # type: ignore[arg-type]
        sdf.InvalidArgument,
        "status: the session was stopped; make another with SparkSession.builder.getOrCreate()",
    ),
    "no jar": (
        _patched(
            _jar, "__file__", "/nowhere/_jar.py", _patched(_jar, "checkout", lambda: None, _jar.jar_path)
        ),
        FileNotFoundError,
        f"the plugin's jar {_jar.JAR_NAME} is not at /nowhere/jars/{_jar.JAR_NAME}; install the wheel "
        "(`pip install spark-dynamic-filters`), not the bare sources",
    ),
    "pyspark-client alone, a server in this process": (
        _patched(_configure, "_remote_only", lambda: True, lambda: sdf.configure(CLIENT)),
        ImportError,
        "configure: only pyspark-client is installed, and a server in this process (remote local[2]) needs "
        "all of Spark: pip uninstall pyspark-client, then pip install 'pyspark[connect]'; or name a server, "
        '.remote("sc://host:15002")',
    ),
    "pyspark-client alone, classic": (
        _patched(_configure, "_remote_only", lambda: True, lambda: sdf.configure(CLASSIC)),
        ImportError,
        "configure: only pyspark-client is installed, and a session with master local[*] needs all of Spark: "
        "pip uninstall pyspark-client, then pip install 'pyspark[connect]'; or name a server, "
        '.remote("sc://host:15002")',
    ),
    "jars that would replace the plugin's": (
        _patched(
            os,
            "environ",
            {"PYSPARK_SUBMIT_ARGS": "--jars /lib/other.jar pyspark-shell"},
            lambda: _configure._refuse_replaced_jars("/lib/plugin.jar"),
        ),
        ValueError,
        "PYSPARK_SUBMIT_ARGS: its --jars /lib/other.jar would replace the plugin's jar; add to it "
        ",/lib/plugin.jar",
    ),
    "no protobuf": (
        _raises(missing_protobuf),
        ImportError,
        "user filters need the protobuf package, which is not installed: pip install "
        "'spark-dynamic-filters[filters]', or pip install 'protobuf>=4.25'",
    ),
    "no pyroaring": (
        _without("pyroaring", lambda: sdf.bitmap([1, 2])),
        ImportError,
        "bitmap: plain integers need the pyroaring package, which is not installed: pip install "
        "'spark-dynamic-filters[filters]', or pip install pyroaring; isin takes integers without it",
    ),
    "an application without faults": (
        _patched(_faults, "_counters", lambda spark: {}, lambda: _faults._require_enabled(SESSION)),
        FaultsNotEnabled,
        "faults: this application was not started for them: use sdf.configure(builder.config("
        '"spark.dynamicFilters.testing.faults.enabled", "true")), or --conf '
        "spark.dynamicFilters.testing.faults.enabled=true with the jar of `python -m "
        "spark_dynamic_filters jar --faults`; no running session can",
    ),
    "failing tasks without a second attempt": (
        lambda: _faults._check_possible(_Master("local[2]"), {"failingTasks": 1}),  # type: ignore[arg-type]
        ValueError,
        "faults: failing_tasks: with master local[2] Spark gives each task one attempt, so a failing task "
        "fails the query; use local[2, 4] or a cluster",
    ),
}

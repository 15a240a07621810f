"""Texts of errors that users can cause without a session, or in another installation or application.

A text names the thing, what is wrong with it, and what is right, in 300 characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from fakes import FakeSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _configure, _jar, _status
from spark_dynamic_filters._errors import missing_protobuf, plugin_not_loaded
from spark_dynamic_filters.testing import FaultsNotEnabled, _faults, assert_same_result, faults

MAX_LENGTH = 300
# It has to say what to add, and where.
MAX_LENGTH_OF_MISSING = 600
SESSION: Any = None
SPARK: Any = FakeSession()
WANTED: Any = sdf.UserFilter(SPARK, "wanted", "bigint", "token")
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

OF_A_SESSION: dict[str, Callable[[], object]] = {
    "conf": lambda: sdf.conf(SESSION),
    "status": lambda: sdf.status(SESSION),
    "filters": lambda: sdf.filters(SESSION),
    "scans": lambda: sdf.scans(SESSION),
    "create_filter": lambda: sdf.create_filter(SESSION, "x", "int"),
}

#: What other sessions, installations and applications would give.
CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
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
        lambda: sdf.status(_Stopped()),
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
        lambda: _faults._check_possible(_Master("local[2]"), {"failingTasks": 1}),
        ValueError,
        "faults: failing_tasks: with master local[2] Spark gives each task one attempt, so a failing task "
        "fails the query; use local[2, 4] or a cluster",
    ),
    **{
        f"{name} of no session": (
            call,
            sdf.InvalidArgument,
            f"{name}: expected a SparkSession, got None",
        )
        for name, call in OF_A_SESSION.items()
    },
    "analyze of a text": (
        lambda: sdf.analyze("SELECT 1"),
        sdf.InvalidArgument,
        "analyze: expected a Spark DataFrame, got str",
    ),
    "analyze of nothing": (
        lambda: sdf.analyze(SESSION),
        sdf.InvalidArgument,
        "analyze: expected a Spark DataFrame, got None",
    ),
    "configure of nothing": (
        lambda: sdf.configure(SESSION),
        sdf.InvalidArgument,
        "configure: expected a SparkSession.builder, got NoneType",
    ),
    "create_filter: name of no text": (
        lambda: sdf.create_filter(SPARK, 5, "int"),
        sdf.InvalidArgument,
        "create_filter: the name is a string, got int",
    ),
    "create_filter: empty name": (
        lambda: sdf.create_filter(SPARK, "", "int"),
        ValueError,
        "create_filter: the name is empty",
    ),
    "create_filter: no type": (
        lambda: sdf.create_filter(SPARK, "x", 5),
        sdf.InvalidArgument,
        "create_filter: the type is a string as in SQL or a pyspark DataType, got int",
    ),
    "update: no form": (
        lambda: WANTED.update(5),
        sdf.InvalidArgument,
        "update: expected what between, isin, bitmap, bloom, everything or nothing return, got int",
    ),
    "update: NA as an end": (
        lambda: sdf.between(pd.NA, 3),
        sdf.InvalidArgument,
        "between: an end cannot be <NA>; None leaves an end open",
    ),
    "bitmap: a large number": (
        lambda: sdf.bitmap([1 << 64]),
        ValueError,
        "bitmap: 18446744073709551616 is not in a roaring bitmap, which has integers from 0 to 2**64 - 1",
    ),
    "isin: one text": (
        lambda: sdf.isin("abc"),
        sdf.InvalidArgument,
        "isin: expected several values, as a list or set, got str",
    ),
    "isin: one number": (
        lambda: sdf.isin(5),
        sdf.InvalidArgument,
        "isin: expected several values, as a list or set, got int",
    ),
    "between: no end": (
        lambda: sdf.between(),
        ValueError,
        "between: give at least one end, or use everything()",
    ),
    "bloom: rate": (
        lambda: sdf.bloom([1], fpp=2),
        ValueError,
        "bloom: fpp is 2; valid are numbers between 0 and 1, both exclusive",
    ),
    "bloom: rate of no number": (
        lambda: sdf.bloom([1], fpp="low"),
        ValueError,
        "bloom: fpp is low; valid are numbers between 0 and 1, both exclusive",
    ),
    "bitmap: no integers": (
        lambda: sdf.bitmap([1.5]),
        sdf.InvalidArgument,
        "bitmap: 1.5 is no integer; give a pyroaring bitmap, its bytes, or integers from 0",
    ),
    "bitmap: negative": (
        lambda: sdf.bitmap([-1]),
        ValueError,
        "bitmap: -1 is not in a roaring bitmap, which has integers from 0 to 2**64 - 1",
    ),
    "bitmap: size": (
        lambda: sdf.bitmap([1], size=16),
        ValueError,
        "bitmap: size is 16; valid are 32, 64 and None",
    ),
    "matches: no column": (
        lambda: WANTED.matches(5),
        sdf.InvalidArgument,
        "filter 'wanted': expected a column or its name, got int",
    ),
    "prunes: no column": (
        lambda: WANTED.prunes(SESSION),
        sdf.InvalidArgument,
        "filter 'wanted': expected a column or its name, got NoneType",
    ),
    "faults: no session": (
        lambda: faults(SESSION).__enter__(),
        sdf.InvalidArgument,
        "faults: expected a SparkSession, got None",
    ),
    "assert_same_result: no query": (
        lambda: assert_same_result(SPARK, 5),
        sdf.InvalidArgument,
        "assert_same_result: query must be SQL text, a DataFrame, or a function that returns "
        "a DataFrame, not int",
    ),
    "assert_same_result: no session": (
        lambda: assert_same_result(SESSION, "SELECT 1"),
        sdf.InvalidArgument,
        "assert_same_result: expected a SparkSession, got None",
    ),
    "assert_same_result: keys in one text": (
        lambda: assert_same_result(SPARK, "SELECT 1", keys="seq"),
        sdf.InvalidArgument,
        "assert_same_result: keys is a list of names; pass keys=['seq']",
    ),
    "assert_same_result: tolerance": (
        lambda: assert_same_result(SPARK, "SELECT 1", tolerance=-1),
        ValueError,
        "assert_same_result: tolerance is -1; valid are numbers from 0",
    ),
    "assert_same_result: fires": (
        lambda: assert_same_result(SPARK, "SELECT 1", fires="topk"),
        sdf.InvalidArgument,
        "assert_same_result: fires is topk; valid are True, False and None",
    ),
    "sdf.conf: unknown": (
        lambda: sdf.conf(SPARK).get("topk.maxLimits"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk.maxLimits: no such setting; did you mean "
        "spark.dynamicFilters.topk.maxLimit?",
    ),
    "sdf.conf: attribute": (
        lambda: setattr(sdf.conf(SPARK).join, "waitTimout", "1s"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.join.waitTimout: no such setting; did you mean "
        "spark.dynamicFilters.join.waitTimeout?",
    ),
    "sdf.conf: nothing like it": (
        lambda: sdf.conf(SPARK).colour,
        sdf.UnknownSetting,
        "spark.dynamicFilters.colour: no such setting; SET -v lists the settings",
    ),
    "sdf.conf: no name": (
        lambda: sdf.conf(SPARK).get(None),
        sdf.InvalidArgument,
        "conf: the name of a setting is a string, got NoneType",
    ),
    "sdf.conf: a group": (
        lambda: setattr(sdf.conf(SPARK), "topk", True),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk: no such setting but a group of them: set one, as "
        "spark.dynamicFilters.topk.enabled",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_errors(case: str) -> None:
    action, kind, expected = CASES[case]
    with pytest.raises(kind) as caught:
        action()
    assert str(caught.value) == expected
    assert type(caught.value) is kind
    assert len(expected) <= (MAX_LENGTH_OF_MISSING if kind is sdf.PluginNotLoaded else MAX_LENGTH)

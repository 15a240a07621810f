"""Every error that a user can cause, with its text: through Python, SQL, hints, settings and Spark Connect.

A text names the thing, what is wrong with it, and what is right, in 300 characters, without Java's stack.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _configure, _jar, _status
from spark_dynamic_filters._errors import missing_protobuf, plugin_not_loaded
from spark_dynamic_filters._session import is_connect
from spark_dynamic_filters.testing import FaultsNotEnabled, _faults, assert_same_result, faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

MAX_LENGTH = 300
# It has to say what to add, and where.
MAX_LENGTH_OF_MISSING = 600
LONG = "x" * 1000
NAN = float("nan")

#: What is done with a session that has a filter `f` of type bigint, named "wanted", and a table `t`.
Action = Callable[["SparkSession", sdf.UserFilter, Any], object]


def _sql(text: str) -> Action:
    return lambda spark, f, t: spark.sql(text.format(t=t)).collect()


def _set(key: str, value: str) -> Action:
    return lambda spark, f, t: spark.conf.set(key, value)


def _update(form: Callable[[], sdf.Form]) -> Action:
    return lambda spark, f, t: f.update(form())


def _where(condition: str) -> Action:
    return lambda spark, f, t: spark.table(t).where(condition).collect()


def _with(manager: Callable[[Any], Any]) -> Action:
    def enter(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
        with manager(spark):
            pass

    return enter


def _closed(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
    f.close()
    f.update(sdf.everything())


K = "spark.dynamicFilters."
SESSION: Any = None

CASES: dict[str, tuple[Action, type[Exception] | None, str]] = {
    "SET of an unknown key": (
        _sql(f"SET {K}topk.maxLimits=5"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.topk.maxLimits: no such "
        "setting; did you mean spark.dynamicFilters.topk.maxLimit? SQLSTATE: 22023",
    ),
    "SET in another case": (
        _sql("SET spark.dynamicfilters.enabled=false"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicfilters.enabled: no such setting; did "
        "you mean spark.dynamicFilters.enabled? SQLSTATE: 22023",
    ),
    "SET below another prefix": (
        _sql("SET spark.dynamicFilter.join.enabled=false"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilter.join.enabled: no such setting; "
        "did you mean spark.dynamicFilters.join.enabled? SQLSTATE: 22023",
    ),
    "SET of nothing like a setting": (
        _sql(f"SET {K}colour=red"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.colour: no such setting; SET "
        "-v lists the settings. SQLSTATE: 22023",
    ),
    "SET of a long key": (
        _sql(f"SET {K}{LONG}=1"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters."
        + "x" * 78
        + "…: no such setting; SET -v lists the settings. SQLSTATE: 22023",
    ),
    "SET of a word for a boolean": (
        _sql(f"SET {K}enabled=maybe"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.enabled: cannot be 'maybe'; it "
        "takes true or false. SQLSTATE: 22023",
    ),
    "SET of a negative number": (
        _sql(f"SET {K}topk.maxLimit=-1"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.topk.maxLimit: cannot be '-1'; "
        "it takes a whole number of at least 0. SQLSTATE: 22023",
    ),
    "conf.set of a number too large": (
        _set(f"{K}topk.maxLimit", "3000000000"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.topk.maxLimit: cannot be "
        "'3000000000'; it takes a whole number of at least 0. SQLSTATE: 22023",
    ),
    "conf.set of no time": (
        _set(f"{K}join.waitTimeout", "soon"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.join.waitTimeout: cannot be "
        "'soon'; it takes a time such as '10s' or '500ms'; '0s' is none. SQLSTATE: 22023",
    ),
    "conf.set of no size": (
        _set(f"{K}maxFilterBytes", "big"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.maxFilterBytes: cannot be "
        "'big'; it takes a size such as '8m' or '512k', or a number of bytes; at least 1 "
        "byte. SQLSTATE: 22023",
    ),
    "conf.set of no rate": (
        _set(f"{K}bloom.fpp", "0"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.bloom.fpp: cannot be '0'; it "
        "takes a number between 0 and 1, both exclusive. SQLSTATE: 22023",
    ),
    "conf.set of no share": (
        _set(f"{K}selectivity.giveUp", "1.5"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.selectivity.giveUp: cannot be "
        "'1.5'; it takes a number from 0 to 1. SQLSTATE: 22023",
    ),
    "conf.set of a long value": (
        _set(f"{K}enabled", LONG),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.enabled: cannot be '"
        + "x" * 59
        + "…'; it takes true or false. SQLSTATE: 22023",
    ),
    "sdf.conf: unknown": (
        lambda s, f, t: sdf.conf(s).get("topk.maxLimits"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk.maxLimits: no such setting; did you mean "
        "spark.dynamicFilters.topk.maxLimit?",
    ),
    "sdf.conf: attribute": (
        lambda s, f, t: setattr(sdf.conf(s).join, "waitTimout", "1s"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.join.waitTimout: no such setting; did you mean "
        "spark.dynamicFilters.join.waitTimeout?",
    ),
    "sdf.conf: nothing like it": (
        lambda s, f, t: sdf.conf(s).colour,
        sdf.UnknownSetting,
        "spark.dynamicFilters.colour: no such setting; SET -v lists the settings",
    ),
    "sdf.conf: a group": (
        lambda s, f, t: setattr(sdf.conf(s), "topk", True),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk: no such setting but a group of them: set one, as topk.enabled",
    ),
    "sdf.conf: bad value": (
        lambda s, f, t: sdf.conf(s).set("topk.maxLimit", -1),
        ValueError,
        "spark.dynamicFilters.topk.maxLimit: cannot be -1; it takes a whole number of at least 0",
    ),
    "sdf.conf: bad text": (
        lambda s, f, t: sdf.conf(s).set("enabled", "maybe"),
        ValueError,
        "spark.dynamicFilters.enabled: cannot be 'maybe'; it takes true or false",
    ),
    "sdf.conf: long value": (
        lambda s, f, t: sdf.conf(s).set("enabled", LONG),
        ValueError,
        "spark.dynamicFilters.enabled: cannot be '" + "x" * 59 + "…'; it takes true or false",
    ),
    "sdf.conf: override": (
        _with(lambda s: sdf.conf(s).override(join_waitTimeout="1s")),
        sdf.UnknownSetting,
        "spark.dynamicFilters.join_waitTimeout: no such setting; did you mean "
        'spark.dynamicFilters.join.waitTimeout? Write override(**{"join.waitTimeout": ...})',
    ),
    "sdf.conf: no session": (
        lambda s, f, t: sdf.conf(SESSION),
        sdf.InvalidArgument,
        "conf: expected a SparkSession, got None",
    ),
    "status of no session": (
        lambda s, f, t: sdf.status(SESSION),
        sdf.InvalidArgument,
        "status: expected a SparkSession, got None",
    ),
    "status of a builder": (
        lambda s, f, t: sdf.status(type(s).builder),
        sdf.InvalidArgument,
        "status: expected a SparkSession, got Builder",
    ),
    "filters of no session": (
        lambda s, f, t: sdf.filters(SESSION),
        sdf.InvalidArgument,
        "filters: expected a SparkSession, got None",
    ),
    "scans of no session": (
        lambda s, f, t: sdf.scans(SESSION),
        sdf.InvalidArgument,
        "scans: expected a SparkSession, got None",
    ),
    "analyze of a text": (
        lambda s, f, t: sdf.analyze("SELECT 1"),
        sdf.InvalidArgument,
        "analyze: expected a Spark DataFrame, got str",
    ),  # type: ignore[arg-type]
    "analyze of nothing": (
        lambda s, f, t: sdf.analyze(SESSION),
        sdf.InvalidArgument,
        "analyze: expected a Spark DataFrame, got None",
    ),
    "analyze of a stream": (
        lambda s, f, t: sdf.analyze(s.readStream.format("rate").load()),
        sdf.InvalidArgument,
        "analyze: expected a batch DataFrame, got a streaming one, which has no filters",
    ),
    "configure of nothing": (
        lambda s, f, t: sdf.configure(SESSION),
        sdf.InvalidArgument,
        "configure: expected a SparkSession.builder, got NoneType",
    ),
    "create_filter without a session": (
        lambda s, f, t: sdf.create_filter(SESSION, "x", "int"),
        sdf.InvalidArgument,
        "create_filter: expected a SparkSession, got None",
    ),
    "create_filter: name of no text": (
        lambda s, f, t: sdf.create_filter(s, 5, "int"),
        sdf.InvalidArgument,
        "create_filter: the name is a string, got int",
    ),  # type: ignore[arg-type]
    "create_filter: empty name": (
        lambda s, f, t: sdf.create_filter(s, "", "int"),
        ValueError,
        "create_filter: the name is empty",
    ),
    "create_filter: no type": (
        lambda s, f, t: sdf.create_filter(s, "x", 5),
        sdf.InvalidArgument,
        "create_filter: the type is a string as in SQL or a pyspark DataType, got int",
    ),
    "create_filter: unknown type": (
        lambda s, f, t: sdf.create_filter(s, "x", "integers"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type integers: there is no such type; write it as in SQL, for example bigint",
    ),
    "create_filter: array": (
        lambda s, f, t: sdf.create_filter(s, "x", "array<int>"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type array<int>: type array<int> is not supported: only atomic types "
        "with an order are",
    ),
    "create_filter: long type": (
        lambda s, f, t: sdf.create_filter(s, "x", f"struct<{LONG}:int>"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type struct<" + "x" * 22 + "…: type struct<" + "x" * 188 + "…",
    ),
    "create_filter: char": (
        lambda s, f, t: sdf.create_filter(s, "x", "char(3)"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type char(3): type char(3) is not supported: its values may be padded",
    ),
    "create_filter: same name": (
        lambda s, f, t: sdf.create_filter(s, "wanted", "int"),
        sdf.DuplicateFilter,
        "filter 'wanted' of type bigint: there is one already; close it first",
    ),
    "update: no form": (
        lambda s, f, t: f.update(5),
        sdf.InvalidArgument,
        "update: expected what between, isin, bitmap, bloom, everything or nothing return, got int",
    ),  # type: ignore[arg-type]
    "update: text": (
        _update(lambda: sdf.isin([1, "2"])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: '2' is no value of type bigint",
    ),
    "update: long text": (
        _update(lambda: sdf.isin([LONG])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: '" + "x" * 40 + "' is no value of type bigint",
    ),
    "update: fraction": (
        _update(lambda: sdf.isin([1.5])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: 1.5 is no value of type bigint; round it, or make a "
        "filter of type double",
    ),
    "update: large float": (
        _update(lambda: sdf.isin([1e17])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: 1.0E17 is no value of type bigint; floats of this "
        "size are not exact: give integers",
    ),
    "update: NaN": (
        _update(lambda: sdf.isin([1.0, NAN])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: NaN is no value of type bigint; leave missing values "
        "out, as dropna() does, or put None for NULL",
    ),
    "update: infinity": (
        _update(lambda: sdf.isin([float("inf")])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: Infinity is no value of type bigint",
    ),
    "update: large integer": (
        _update(lambda: sdf.isin([1 << 70])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: 1180591620717411303424 is no value of type bigint",
    ),
    "update: date": (
        _update(lambda: sdf.between(dt.date(2020, 1, 1))),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: a date is no value of type bigint",
    ),
    "update: timestamp": (
        _update(lambda: sdf.between(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: a timestamp with a time zone is no value of type bigint",
    ),
    "update: bytes": (
        _update(lambda: sdf.isin([b"x"])),
        sdf.FilterTypeMismatch,
        "filter 'wanted' of type bigint: a binary value is no value of type bigint",
    ),
    "update: list in a list": (
        _update(lambda: sdf.isin([[1]])),
        sdf.InvalidArgument,
        "a filter takes no values of type list: [1]",
    ),
    "update: damaged bitmap": (
        _update(lambda: sdf.bitmap(b"none")),
        sdf.InvalidFilterForm,
        "filter 'wanted' of type bigint: a bitmap has no valid header",
    ),
    "update: closed": (
        _closed,
        sdf.FilterClosed,
        "filter 'wanted' of type bigint is closed; create_filter makes a new one",
    ),
    "isin: one text": (
        _update(lambda: sdf.isin("abc")),
        sdf.InvalidArgument,
        "isin: expected several values, got str",
    ),
    "isin: one number": (
        _update(lambda: sdf.isin(5)),
        sdf.InvalidArgument,
        "isin: expected several values, got int",
    ),  # type: ignore[arg-type]
    "isin: a table": (
        lambda s, f, t: f.update(sdf.isin(s.range(3).toPandas())),
        sdf.InvalidArgument,
        "isin: expected values, got a DataFrame: give one of its columns",
    ),
    "between: no end": (
        _update(lambda: sdf.between()),
        ValueError,
        "between: give at least one end, or use everything()",
    ),
    "bloom: rate": (
        _update(lambda: sdf.bloom([1], fpp=2)),
        ValueError,
        "bloom: fpp is 2; valid are numbers between 0 and 1, both exclusive",
    ),
    "bloom: rate of no number": (
        _update(lambda: sdf.bloom([1], fpp="low")),
        ValueError,
        "bloom: fpp is low; valid are numbers between 0 and 1, both exclusive",
    ),  # type: ignore[arg-type]
    "bitmap: no integers": (
        _update(lambda: sdf.bitmap([1.5])),
        sdf.InvalidArgument,
        "bitmap: 1.5 is no integer; give a pyroaring bitmap, its bytes, or integers from 0",
    ),
    "bitmap: negative": (
        _update(lambda: sdf.bitmap([-1])),
        ValueError,
        "bitmap: -1 is not in a roaring bitmap, which has integers from 0 only",
    ),
    "bitmap: size": (
        _update(lambda: sdf.bitmap([1], size=16)),
        ValueError,
        "bitmap: size is 16; valid are 32, 64 and None",
    ),
    "matches: no column": (
        lambda s, f, t: f.matches(5),
        sdf.InvalidArgument,
        "filter 'wanted': expected a column or its name, got int",
    ),  # type: ignore[arg-type]
    "prunes: no column": (
        lambda s, f, t: f.prunes(SESSION),
        sdf.InvalidArgument,
        "filter 'wanted': expected a column or its name, got NoneType",
    ),
    "matches: column of another type": (
        lambda s, f, t: s.table(t).where(f.matches("c_string")).collect(),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: t.c_string is of type "
        "string. SQLSTATE: 42804",
    ),
    "SQL: unknown filter": (
        _where("dynamic_filter('nobody', seq)"),
        None,
        "[DYNAMIC_FILTER_NOT_FOUND] filter 'nobody' is unknown in this session; names belong "
        "to the session that created them. SQLSTATE: 42704",
    ),
    "SQL: long name": (
        _where(f"dynamic_filter('{LONG}', seq)"),
        None,
        "[DYNAMIC_FILTER_NOT_FOUND] filter '"
        + "x" * 59
        + "…' is unknown in this session; names belong to the session that created them. SQLSTATE: 42704",
    ),
    "SQL: column of another type": (
        _where("dynamic_filter('wanted', c_date)"),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: t.c_date is of type "
        "date. SQLSTATE: 42804",
    ),
    "SQL: long expression": (
        _where(f"dynamic_filter('wanted', concat(c_string, '{LONG}'))"),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: concat(t.c_string, '"
        + "x" * 39
        + "… is of type string. SQLSTATE: 42804",
    ),
    "SQL: one argument": (
        _where("dynamic_filter('wanted')"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter takes a filter's name and a column, "
        "dynamic_filter('name', column); 1 arguments were given. SQLSTATE: 42601",
    ),
    "SQL: three arguments": (
        _where("dynamic_filter_prune('wanted', seq, 1)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter_prune takes a filter's name and a "
        "column, dynamic_filter_prune('name', column); 3 arguments were given. SQLSTATE: 42601",
    ),
    "SQL: no name": (
        _where("dynamic_filter(seq, seq)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter takes a filter's name first, not t.seq. SQLSTATE: 42601",
    ),
    "SQL: NOT prune": (
        _where("NOT dynamic_filter_prune('wanted', seq)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] filter 'wanted' of type bigint: dynamic_filter_prune "
        "may let rows pass that do not match, so it can only be a condition of WHERE or of an "
        "inner join, alone or joined by AND; dynamic_filter can stand anywhere. SQLSTATE: "
        "42601",
    ),
    "SQL: filters with an argument": (
        _sql("SELECT * FROM dynamic_filters(1)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filters takes no arguments, 1 given. SQLSTATE: 42601",
    ),
    "SQL: report of no tag": (
        _sql("SELECT * FROM dynamic_filter_report()"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter_report takes one argument, the text of a "
        "query's tag. SQLSTATE: 42601",
    ),
    "hint: a number": (
        _sql("SELECT /*+ DYNAMIC_FILTER(5) */ * FROM {t}"),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint DYNAMIC_FILTER takes names of tables or "
        "aliases, as identifiers or strings, but was given 5. SQLSTATE: 42601",
    ),
    "hint: an expression": (
        _sql(f"SELECT /*+ NO_DYNAMIC_FILTER(concat('{LONG}', 'y')) */ * FROM {{t}}"),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint NO_DYNAMIC_FILTER takes names of tables or aliases, "
        "as identifiers or strings, but was given concat('" + "x" * 51 + "…. SQLSTATE: 42601",
    ),
    "df.hint: a number": (
        lambda s, f, t: s.table(t).hint("dynamic_filter", 5).collect(),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint DYNAMIC_FILTER takes names of tables or "
        "aliases, as identifiers or strings, but was given 5. SQLSTATE: 42601",
    ),
    "faults: share": (
        _with(lambda s: faults(s, lost=2)),
        ValueError,
        "faults: lost cannot be 2; it takes a share from 0 to 1",
    ),
    "faults: sum": (
        _with(lambda s: faults(s, lost=0.9, late=0.9)),
        ValueError,
        "faults: lost, late, duplicated, reordered and undecodable are shares of the same "
        "updates; together they are above 1",
    ),
    "faults: executors": (
        _with(lambda s: faults(s, killed_executors=1)),
        ValueError,
        "faults: killed_executors: with master local[2, 4] there are no executors but the "
        "driver; use local-cluster or a cluster",
    ),
    "faults: shuffle files": (
        _with(lambda s: faults(s, fetch_failures=1)),
        ValueError,
        "faults: fetch_failures: with master local[2, 4] Spark does not recover from them: it "
        "keeps the broadcasts of all later queries; use local-cluster or a cluster",
    ),
    "faults: no session": (
        _with(lambda s: faults(SESSION)),
        sdf.InvalidArgument,
        "faults: expected a SparkSession, got None",
    ),
    "SET of an unknown fault": (
        _sql(f"SET {K}testing.faults.spec=burnt=1"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.testing.faults.spec: there is "
        "no fault burnt; there are seed, lost, late, duplicated, reordered, undecodable, "
        "delayMillis, failingTasks, slowTasks, slowMillis, killedExecutors, killBest, "
        "fetchFailures, coordinatorMillis, trace. SQLSTATE: 22023",
    ),
    "SET of no fault": (
        _sql(f"SET {K}testing.faults.spec={LONG}"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.testing.faults.spec: "
        + "x" * 19
        + "… is not of the form key=value. SQLSTATE: 22023",
    ),
    "assert_same_result: no query": (
        lambda s, f, t: assert_same_result(s, 5),
        sdf.InvalidArgument,
        "assert_same_result: query must be SQL text, a DataFrame, or a function that returns "
        "a DataFrame, not int",
    ),  # type: ignore[arg-type]
    "assert_same_result: no session": (
        lambda s, f, t: assert_same_result(SESSION, "SELECT 1"),
        sdf.InvalidArgument,
        "assert_same_result: expected a SparkSession, got None",
    ),
    "assert_same_result: keys": (
        lambda s, f, t: assert_same_result(s, f"SELECT * FROM {t} ORDER BY seq LIMIT 3", keys=["SEQ"]),
        ValueError,
        "assert_same_result: keys SEQ: no such column in the result; it has id, seq, grp, "
        "c_boolean, c_tinyint, c_smallint, c_int, c_bigint, c_decimal_int, c_decimal_long, "
        "c_decimal_big, c_float,…",
    ),
}


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
        "faults: this Spark application was not started for them. Set it where the application or the Spark "
        'Connect server starts: .config("spark.dynamicFilters.testing.faults.enabled", "true") or --conf '
        "spark.dynamicFilters.testing.faults.enabled=true; no running session can",
    ),
    "failing tasks without a second attempt": (
        lambda: _faults._check_possible(_Master("local[2]"), {"failingTasks": 1}),  # type: ignore[arg-type]
        ValueError,
        "faults: failing_tasks: with master local[2] Spark gives each task one attempt, so a failing task "
        "fails the query; use local[2, 4] or a cluster",
    ),
}


@pytest.mark.core
@pytest.mark.parametrize("case", APART)
def test_errors_apart(case: str) -> None:
    action, kind, expected = APART[case]
    with pytest.raises(kind) as caught:
        action()
    assert str(caught.value) == expected
    assert len(expected) <= (MAX_LENGTH_OF_MISSING if kind is sdf.PluginNotLoaded else MAX_LENGTH)


@pytest.mark.core
@pytest.mark.parametrize("case", CASES)
def test_errors(spark: SparkSession, t: str, case: str) -> None:
    action, kind, expected = CASES[case]
    with sdf.create_filter(spark, "wanted", "bigint") as f, pytest.raises(Exception) as caught:  # noqa: PT011
        action(spark, f, t)
    assert _text(caught.value) == expected
    assert type(caught.value) is (kind or _analysis_exception(spark))
    assert len(expected) <= MAX_LENGTH


def _text(error: BaseException) -> str:
    """The error's text; Spark Connect adds a stack, which has to be empty."""
    text, _, stack = str(error).partition("\n\nJVM stacktrace:")
    assert "\n" not in stack.strip(), stack
    return text


def _analysis_exception(spark: SparkSession) -> type[Exception]:
    if is_connect(spark):
        from pyspark.errors.exceptions.connect import AnalysisException
    else:
        from pyspark.errors.exceptions.captured import AnalysisException
    return AnalysisException

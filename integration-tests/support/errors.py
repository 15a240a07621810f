"""What causes errors, on a session that has a filter and a table; each with the error's text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters import FilterTypeMismatch, InvalidArgument
from spark_dynamic_filters.testing import assert_same_result, faults

#: What is done with a session that has a filter `f` of type bigint, named "wanted", and a table `t`.
Action = Callable[["SparkSession", sdf.UserFilter, str], object]
#: An action, the error's type or the condition of Spark's AnalysisException, and the text.
Case = tuple[Action, type[Exception] | str, str]

K = "spark.dynamicFilters."
#: Too long to be shown.
LONG = "x" * 1000


def _sql(text: str) -> Action:
    return lambda spark, f, t: spark.sql(text.format(t=t)).collect()


def _value(value: Any) -> Action:
    return lambda spark, f, t: f.update(sdf.isin([value]))


def _faults(**shares: Any) -> Action:
    def inject(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
        with faults(spark, **shares):
            pass

    return inject


def _closed(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
    f.close()
    f.update(sdf.everything())


#: By what SET is given, what the error says.
UNKNOWN = {
    f"{K}topk.maxLimits=5": f"{K}topk.maxLimits: no such setting; did you mean {K}topk.maxLimit?",
    # In another case, and below another prefix.
    "spark.dynamicfilters.enabled=false": "spark.dynamicfilters.enabled: no such setting; did you mean "
    f"{K}enabled?",
    "spark.dynamicFilter.join.enabled=false": "spark.dynamicFilter.join.enabled: no such setting; did you "
    f"mean {K}join.enabled?",
    f"{K}colour=red": f"{K}colour: no such setting; SET -v lists the settings.",
    f"{K}{LONG}=1": f"{K}{'x' * 78}…: no such setting; SET -v lists the settings.",
    f"{K}join=true": f"{K}join: no such setting but a group of them: set one, as {K}join.enabled.",
    f"{K[:-1]}=true": f"{K[:-1]}: no such setting but a group of them: set one, as {K}enabled.",
}
TOO_SMALL = f"{K}topk.maxLimit: cannot be '-1'; it takes a whole number from 0 to 2147483647"
INTEGERS = "it takes integers of 64 bits"
#: What is no value of type bigint, how the text shows it, and what it says to do.
NO_VALUES: tuple[tuple[Any, str, str], ...] = (
    ("2", "'2'", INTEGERS),
    (LONG, "'" + "x" * 40 + "'", INTEGERS),
    (1.5, "1.5", "round it, or make a filter of type double"),
    (1e17, "1.0E17", "floats of this size are not exact: give integers"),
    (float("nan"), "NaN", "leave missing values out, as dropna() does, or put None for NULL"),
    (float("inf"), "Infinity", INTEGERS),
    (1 << 70, "1180591620717411303424", INTEGERS),
    (dt.date(2020, 1, 1), "a date", INTEGERS),
    (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "a timestamp with a time zone", INTEGERS),
    (b"x", "a binary value", INTEGERS),
    (Decimal("1.5"), "1.5", INTEGERS),
)
WANTED = "filter 'wanted' of type bigint"
#: By condition and expression, the text.
EXPRESSIONS = {
    "NOT_FOUND": {
        "dynamic_filter('nobody', seq)": "filter 'nobody' is unknown in this session; names belong to the "
        "session that created them.",
        f"dynamic_filter('{LONG}', seq)": f"filter '{'x' * 59}…' is unknown in this session; names belong to "
        "the session that created them.",
    },
    "TYPE_MISMATCH": {
        "dynamic_filter('wanted', c_date)": f"{WANTED}: t.c_date is of type date.",
        f"dynamic_filter('wanted', concat(c_string, '{LONG}'))": f"{WANTED}: concat(t.c_string, '"
        f"{'x' * 39}… is of type string.",
    },
    "INVALID_USE": {
        "dynamic_filter('wanted')": "dynamic_filter takes a filter's name and a column, "
        "dynamic_filter('name', column); given: 1.",
        "dynamic_filter_prune('wanted', seq, 1)": "dynamic_filter_prune takes a filter's name and a column, "
        "dynamic_filter_prune('name', column); given: 3.",
        "dynamic_filter(seq, seq)": "dynamic_filter takes a filter's name first, not t.seq.",
        "NOT dynamic_filter_prune('wanted', seq)": f"{WANTED}: dynamic_filter_prune may let rows pass that "
        "do not match, so it can only be a condition of WHERE or of an inner join, alone or joined by AND; "
        "dynamic_filter can stand anywhere.",
    },
}
_HINT = "takes names of tables or aliases, as identifiers or strings, but was given"
#: By condition and statement, the text.
STATEMENTS = {
    "INVALID_USE": {
        "SELECT * FROM dynamic_filters(1)": "dynamic_filters takes no arguments, 1 given.",
        "SELECT * FROM dynamic_filter_report()": "dynamic_filter_report takes one argument, the text of a "
        "query's tag.",
    },
    "HINT_PARAMETER": {
        "SELECT /*+ DYNAMIC_FILTER(5) */ * FROM {t}": f"The hint DYNAMIC_FILTER {_HINT} 5.",
        f"SELECT /*+ NO_DYNAMIC_FILTER(concat('{LONG}', 'y')) */ * FROM {{t}}": "The hint NO_DYNAMIC_FILTER "
        f"{_HINT} concat('{'x' * 51}….",
    },
    "INVALID_SETTING": {
        f"SET {K}topk.maxLimit=-1": f"{TOO_SMALL}.",
        f"SET {K}enabled={LONG}": f"{K}enabled: cannot be '{'x' * 59}…'; it takes true or false.",
        f"SET {K}testing.faults.spec=burnt=1": f"{K}testing.faults.spec: there is no fault burnt; there are "
        "seed, lost, late, duplicated, reordered, undecodable, delayMillis, failingTasks, slowTasks, "
        "slowMillis, killedExecutors, killBest, fetchFailures, coordinatorMillis, trace.",
        f"SET {K}testing.faults.spec={LONG}": f"{K}testing.faults.spec: {'x' * 19}… is not of the form "
        "key=value.",
    },
    "UNKNOWN_SETTING": {f"SET {text}": words for text, words in UNKNOWN.items()},
}


def _no_type(name: str, words: str) -> Case:
    return lambda s, f, t: sdf.create_filter(s, "x", name), FilterTypeMismatch, words


_LOCAL = "with master local[2, 4]"
CASES: dict[str, Case] = {
    **{
        expression: (_sql(f"SELECT * FROM {{t}} WHERE {expression}"), condition, words)
        for condition, texts in EXPRESSIONS.items()
        for expression, words in texts.items()
    },
    **{
        statement: (_sql(statement), condition, words)
        for condition, texts in STATEMENTS.items()
        for statement, words in texts.items()
    },
    "spark.conf: a number": (
        lambda s, f, t: s.conf.set(f"{K}topk.maxLimit", "-1"),
        "INVALID_SETTING",
        f"{TOO_SMALL}.",
    ),
    "sdf.conf: a number": (lambda s, f, t: sdf.conf(s).set("topk.maxLimit", -1), ValueError, TOO_SMALL),
    **{
        f"update: {value!r}": (
            _value(value),
            FilterTypeMismatch,
            f"{WANTED}: {shown} is no value of type bigint; {words}",
        )
        for value, shown, words in NO_VALUES
    },
    "update: a list in a list": (
        _value([1]),
        InvalidArgument,
        f"{WANTED}: [1] of type list is no value; give Python's own, as int, float, str, bool, bytes, "
        "Decimal, date, datetime, time or timedelta",
    ),
    "update: a damaged bitmap": (
        lambda s, f, t: f.update(sdf.bitmap(b"none")),
        sdf.InvalidFilterForm,
        f"{WANTED}: a bitmap is damaged",
    ),
    "update: closed": (_closed, sdf.FilterClosed, f"{WANTED} is closed; create_filter makes a new one"),
    "isin: a table": (
        lambda s, f, t: sdf.isin(s.range(3).toPandas()),
        InvalidArgument,
        "isin: expected values, got DataFrame: give one of its columns",
    ),
    "isin: a table of Spark's": (
        lambda s, f, t: sdf.isin(s.range(3)),
        InvalidArgument,
        "isin: expected values, got DataFrame: give those of one of its columns, [row[0] for row in "
        "...collect()]",
    ),
    "matches: a column of another type": (
        lambda s, f, t: s.table(t).where(f.matches("c_string")).collect(),
        "TYPE_MISMATCH",
        f"{WANTED}: t.c_string is of type string.",
    ),
    "create_filter: an unknown type": _no_type(
        "integers",
        "filter 'x' of type integers: there is no such type; write it as in SQL, for example bigint",
    ),
    "create_filter: an array": _no_type(
        "array<int>",
        "filter 'x' of type array<int>: type array<int> is not supported: filters take numbers, strings, "
        "binary and boolean values, dates, times, timestamps and ANSI intervals",
    ),
    "create_filter: a long type": _no_type(
        f"struct<{LONG}:int>",
        f"filter 'x' of type struct<{'x' * 22}…: type struct<{'x' * 188}…",
    ),
    "create_filter: char": _no_type(
        "char(3)",
        "filter 'x' of type char(3): type char(3) is not supported: its values may be padded",
    ),
    "create_filter: the same name": (
        lambda s, f, t: sdf.create_filter(s, "wanted", "int"),
        sdf.DuplicateFilter,
        f"{WANTED}: there is one already; close it first",
    ),
    "status of a builder": (
        lambda s, f, t: sdf.status(type(s).builder),
        InvalidArgument,
        "status: expected a SparkSession, got Builder",
    ),
    "analyze of a stream": (
        lambda s, f, t: sdf.analyze(s.readStream.format("rate").load()),
        InvalidArgument,
        "analyze: expected a batch DataFrame, got a streaming one, which has no filters",
    ),
    "analyze of a command": (
        lambda s, f, t: sdf.analyze(s.sql("SHOW TABLES")),
        InvalidArgument,
        "analyze: spark.sql ran this command already, and it is not run twice; run it inside of "
        "`with sdf.watch(spark) as w:` and print(w)",
    ),
    "df.hint: a number": (
        lambda s, f, t: s.table(t).hint("dynamic_filter", 5).collect(),
        "HINT_PARAMETER",
        f"The hint DYNAMIC_FILTER {_HINT} 5.",
    ),
    "faults: a share": (
        _faults(lost=2),
        ValueError,
        "faults: lost cannot be 2; it takes a share from 0 to 1",
    ),
    "faults: a sum": (
        _faults(lost=0.9, late=0.9),
        ValueError,
        "faults: lost, late, duplicated, reordered and undecodable are shares of the same updates; together "
        "they are above 1",
    ),
    "faults: executors": (
        _faults(killed_executors=1),
        ValueError,
        f"faults: killed_executors: {_LOCAL} there are no executors but the driver; use local-cluster or a "
        "cluster",
    ),
    "faults: shuffle files": (
        _faults(fetch_failures=1),
        ValueError,
        f"faults: fetch_failures: {_LOCAL} Spark does not recover from them: it keeps the broadcasts of all "
        "later queries; use local-cluster or a cluster",
    ),
    "assert_same_result: keys": (
        lambda s, f, t: assert_same_result(s, f"SELECT * FROM {t} ORDER BY seq LIMIT 3", keys=["SEQ"]),
        ValueError,
        "assert_same_result: keys SEQ: no such column in the result; it has id, seq, grp, c_boolean, "
        "c_tinyint, c_smallint, c_int, c_bigint, c_decimal_int, c_decimal_long, c_decimal_big, c_float,…",
    ),
}

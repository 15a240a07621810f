"""Sessions and user filters, in Python."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import spark_dynamic_filters as sdf

from .actions import LONG, NAN, Case, closed, update

INTEGERS = "it takes integers of 64 bits"
#: What is no value of type bigint: how the text shows it, and what it says to do.
NO_VALUES: dict[str, tuple[Any, str, str]] = {
    "text": ("2", "'2'", INTEGERS),
    "long text": (LONG, "'" + "x" * 40 + "'", INTEGERS),
    "fraction": (1.5, "1.5", "round it, or make a filter of type double"),
    "large float": (1e17, "1.0E17", "floats of this size are not exact: give integers"),
    "NaN": (NAN, "NaN", "leave missing values out, as dropna() does, or put None for NULL"),
    "infinity": (float("inf"), "Infinity", INTEGERS),
    "large integer": (1 << 70, "1180591620717411303424", INTEGERS),
    "date": (dt.date(2020, 1, 1), "a date", INTEGERS),
    "timestamp": (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "a timestamp with a time zone", INTEGERS),
    "bytes": (b"x", "a binary value", INTEGERS),
    "fraction as a decimal": (Decimal("1.5"), "1.5", INTEGERS),
}
CASES: dict[str, Case] = {
    **{
        f"update: {name}": (
            update(lambda value=value: sdf.isin([value])),
            sdf.FilterTypeMismatch,
            f"filter 'wanted' of type bigint: {shown} is no value of type bigint; {words}",
        )
        for name, (value, shown, words) in NO_VALUES.items()
    },
    "status of a builder": (
        lambda s, f, t: sdf.status(type(s).builder),
        sdf.InvalidArgument,
        "status: expected a SparkSession, got Builder",
    ),
    "analyze of a stream": (
        lambda s, f, t: sdf.analyze(s.readStream.format("rate").load()),
        sdf.InvalidArgument,
        "analyze: expected a batch DataFrame, got a streaming one, which has no filters",
    ),
    "analyze of a command": (
        lambda s, f, t: sdf.analyze(s.sql("SHOW TABLES")),
        sdf.InvalidArgument,
        "analyze: spark.sql ran this command already, and it is not run twice; run it inside of "
        "`with sdf.watch(spark) as w:` and print(w)",
    ),
    "create_filter: unknown type": (
        lambda s, f, t: sdf.create_filter(s, "x", "integers"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type integers: there is no such type; write it as in SQL, for example bigint",
    ),
    "create_filter: array": (
        lambda s, f, t: sdf.create_filter(s, "x", "array<int>"),
        sdf.FilterTypeMismatch,
        "filter 'x' of type array<int>: type array<int> is not supported: filters take "
        "numbers, strings, binary and boolean values, dates, times, timestamps and ANSI intervals",
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
    "isin: a table of Spark's": (
        lambda s, f, t: sdf.isin(s.range(3)),
        sdf.InvalidArgument,
        "isin: expected values, got DataFrame: give those of one of its columns, "
        "[row[0] for row in ...collect()]",
    ),
    "update: list in a list": (
        update(lambda: sdf.isin([[1]])),
        sdf.InvalidArgument,
        "filter 'wanted' of type bigint: [1] of type list is no value; give Python's own, as int, float, "
        "str, bool, bytes, Decimal, date, datetime, time or timedelta",
    ),
    "update: damaged bitmap": (
        update(lambda: sdf.bitmap(b"none")),
        sdf.InvalidFilterForm,
        "filter 'wanted' of type bigint: a bitmap is damaged",
    ),
    "update: closed": (
        closed,
        sdf.FilterClosed,
        "filter 'wanted' of type bigint is closed; create_filter makes a new one",
    ),
    "isin: a table": (
        lambda s, f, t: f.update(sdf.isin(s.range(3).toPandas())),
        sdf.InvalidArgument,
        "isin: expected values, got DataFrame: give one of its columns",
    ),
    "matches: column of another type": (
        lambda s, f, t: s.table(t).where(f.matches("c_string")).collect(),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: t.c_string is of type "
        "string. SQLSTATE: 42804",
    ),
}

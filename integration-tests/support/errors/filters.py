"""Sessions and user filters, in Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd

import spark_dynamic_filters as sdf

from .actions import LONG, NAN, SESSION, Case, closed, update

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
OF_A_SESSION: dict[str, Callable[[], object]] = {
    "conf": lambda: sdf.conf(SESSION),
    "status": lambda: sdf.status(SESSION),
    "filters": lambda: sdf.filters(SESSION),
    "scans": lambda: sdf.scans(SESSION),
    "create_filter": lambda: sdf.create_filter(SESSION, "x", "int"),
}

CASES: dict[str, Case] = {
    **{
        f"{name} of no session": (
            lambda s, f, t, call=call: call(),
            sdf.InvalidArgument,
            f"{name}: expected a SparkSession, got None",
        )
        for name, call in OF_A_SESSION.items()
    },
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
    "analyze of a command": (
        lambda s, f, t: sdf.analyze(s.sql("SHOW TABLES")),
        sdf.InvalidArgument,
        "analyze: spark.sql ran this command already, and it is not run twice; run it inside of "
        "`with sdf.watch(spark) as w:` and print(w)",
    ),
    "configure of nothing": (
        lambda s, f, t: sdf.configure(SESSION),
        sdf.InvalidArgument,
        "configure: expected a SparkSession.builder, got NoneType",
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
    "update: no form": (
        lambda s, f, t: f.update(5),
        sdf.InvalidArgument,
        "update: expected what between, isin, bitmap, bloom, everything or nothing return, got int",
    ),  # type: ignore[arg-type]
    "update: NA as an end": (
        update(lambda: sdf.between(pd.NA, 3)),
        sdf.InvalidArgument,
        "between: an end cannot be <NA>; None leaves an end open",
    ),
    "isin: a table of Spark's": (
        lambda s, f, t: sdf.isin(s.range(3)),
        sdf.InvalidArgument,
        "isin: expected values, got DataFrame: give those of one of its columns, "
        "[row[0] for row in ...collect()]",
    ),
    "bitmap: a large number": (
        lambda s, f, t: sdf.bitmap([1 << 64]),
        ValueError,
        "bitmap: 18446744073709551616 is not in a roaring bitmap, which has integers from 0 to 2**64 - 1",
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
    "isin: one text": (
        update(lambda: sdf.isin("abc")),
        sdf.InvalidArgument,
        "isin: expected several values, as a list or set, got str",
    ),
    "isin: one number": (
        update(lambda: sdf.isin(5)),
        sdf.InvalidArgument,
        "isin: expected several values, as a list or set, got int",
    ),  # type: ignore[arg-type]
    "isin: a table": (
        lambda s, f, t: f.update(sdf.isin(s.range(3).toPandas())),
        sdf.InvalidArgument,
        "isin: expected values, got DataFrame: give one of its columns",
    ),
    "between: no end": (
        update(lambda: sdf.between()),
        ValueError,
        "between: give at least one end, or use everything()",
    ),
    "bloom: rate": (
        update(lambda: sdf.bloom([1], fpp=2)),
        ValueError,
        "bloom: fpp is 2; valid are numbers between 0 and 1, both exclusive",
    ),
    "bloom: rate of no number": (
        update(lambda: sdf.bloom([1], fpp="low")),
        ValueError,
        "bloom: fpp is low; valid are numbers between 0 and 1, both exclusive",
    ),  # type: ignore[arg-type]
    "bitmap: no integers": (
        update(lambda: sdf.bitmap([1.5])),
        sdf.InvalidArgument,
        "bitmap: 1.5 is no integer; give a pyroaring bitmap, its bytes, or integers from 0",
    ),
    "bitmap: negative": (
        update(lambda: sdf.bitmap([-1])),
        ValueError,
        "bitmap: -1 is not in a roaring bitmap, which has integers from 0 to 2**64 - 1",
    ),
    "bitmap: size": (
        update(lambda: sdf.bitmap([1], size=16)),
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
}

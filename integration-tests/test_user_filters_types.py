"""User filters: types, in all kinds of sessions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row, SparkSession

import spark_dynamic_filters as sdf
from support.user_filters import expected, ids, reported, users

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]

CASES: dict[str, tuple[str, Any]] = {
    "c_boolean": ("boolean", [True]),
    "c_tinyint": ("tinyint", [-5, 0, 7]),
    "c_smallint": ("smallint", None),
    "c_int": ("int", None),
    "c_bigint": ("bigint", None),
    "c_decimal_int": ("decimal(7,2)", None),
    "c_decimal_long": ("decimal(15,4)", None),
    "c_decimal_big": ("decimal(30,6)", None),
    "c_float": ("float", [float("nan"), 0.0, float("inf")]),
    "c_double": ("double", [float("nan"), -0.0, float("inf")]),
    "c_string": ("string", None),
    "c_binary": ("binary", None),
    "c_date": ("date", None),
    "c_timestamp_ntz": ("timestamp_ntz", None),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, t: str) -> list[Row]:
    return spark.table(t).select("id", *CASES).collect()


@pytest.mark.exhaustive
@pytest.mark.parametrize("column", CASES)
def test_types(spark: SparkSession, t: str, rows: list[Row], column: str) -> None:
    kind, values = CASES[column]
    table, stored = spark.table(t), {r.id: r[column] for r in rows if r[column] is not None}
    values = values or [value for id, value in stored.items() if id % 97 == 0][:5]
    has_nan = any(value != value for value in values)
    with sdf.create_filter(spark, f"of {column}'s type", kind) as f:
        f.update(sdf.isin(values))
        df = table.where(f.matches(column))
        found = ids(df)
        assert found
        assert found == sorted(id for id, v in stored.items() if v in values or (has_nan and v != v))
        # Two-valued: what does not match is the rest, and NULL is a value as others are.
        f.update(sdf.isin([*values, None]))
        matches, is_null = f.matches(column).alias("m"), table[column].isNull().alias("n")
        counted = {(r.m, r.n): r["count"] for r in table.groupBy(matches, is_null).count().collect()}
        assert counted[True, False] == len(found)
        assert (False, True) not in counted
        assert sum(counted.values()) == 4_000
        if kind in ("binary", "boolean", "float", "double"):
            f.update(sdf.bloom(values, fpp=1e-9))
            assert ids(df) == found
        else:
            low, high = min(values), max(values)
            f.update(sdf.between(low, high))
            assert ids(df) == sorted(id for id, v in stored.items() if low <= v <= high)


def test_timestamps(spark: SparkSession, t: str) -> None:
    moment = dt.datetime(1980, 5, 5, tzinfo=dt.UTC)
    with sdf.create_filter(spark, "since", "timestamp") as f:
        f.update(sdf.between(moment, None))
        df = spark.table(t).where(f.matches("c_timestamp"))
        assert ids(df) == expected(spark.table(t), "c_timestamp >= TIMESTAMP'1980-05-05 00:00:00Z'")


def test_integers_of_other_widths(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    table = spark.table(t)
    f.update(sdf.isin([1, 5, 1 << 40, -1]))
    found, report = reported(spark, lambda: ids(table.where(f.matches("c_tinyint"))))
    assert found == expected(table, "c_tinyint IN (1, 5, -1)")
    assert users(report)[0]["reason"] is None
    assert ids(table.where("dynamic_filter('wanted', cast(grp as smallint))")) == expected(
        table, "grp IN (1, 5)"
    )
    some = spark.sql("SELECT dynamic_filter('wanted', 5), dynamic_filter('wanted', NULL)").head()
    assert some == (True, False)
    with sdf.create_filter(spark, "small", "tinyint") as small:
        small.update(sdf.isin([1, 5]))
        assert ids(table.where(small.matches("seq")), "seq") == [1, 5]


def test_whole_floats_and_decimals_are_integers(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    """As pandas has them: a column of integers with missing values is one of floats."""
    for form, rows in (
        (sdf.isin(pd.Series([1, 5, None]).dropna()), [1, 5]),
        (sdf.isin([Decimal("7"), Decimal("5.00")]), [5, 7]),
        (sdf.between(1.0, 3.0), [1, 2, 3]),
        (sdf.isin(pd.Series([1, pd.NA, 7], dtype="Int64")), [1, 7]),
    ):
        f.update(form)
        assert ids(spark.table(t).where(f.matches("seq")), "seq") == rows
    # NA is among the last values.
    some = spark.sql("SELECT dynamic_filter('wanted', NULL), dynamic_filter('wanted', 2)").head()
    assert some == (True, False)


def test_filters_of_dates_by_bitmap(spark: SparkSession, t: str) -> None:
    pytest.importorskip("pyroaring")
    days = [r[0] for r in spark.table(t).where("c_date > '1975-01-01'").select("c_date").limit(4).collect()]
    with sdf.create_filter(spark, "days", "date") as f:
        f.update(sdf.bitmap([(d - dt.date(1970, 1, 1)).days for d in days]))
        by_bitmap = ids(spark.table(t).where(f.matches("c_date")))
        f.update(sdf.isin(days))
        assert ids(spark.table(t).where(f.matches("c_date"))) == by_bitmap


@pytest.mark.parametrize(
    ("kind", "form", "matching"),
    [
        # Zero is a value of a type without digits before the point.
        ("decimal(2,2)", sdf.isin([0, Decimal("0.25")]), ["0.00", "0.25"]),
        ("decimal(2,2)", sdf.between(Decimal("0.00"), Decimal("0.2")), ["0.00"]),
        ("decimal(10,2)", sdf.isin([Decimal("1.5"), 2]), ["1.50", "2.00"]),
    ],
)
def test_decimals_are_exact(spark: SparkSession, kind: str, form: sdf.Form, matching: list[str]) -> None:
    values = "(0BD), (0.25BD), (0.3BD)" if kind == "decimal(2,2)" else "(1.5BD), (1.51BD), (2BD)"
    rows = spark.sql(f"SELECT CAST(x AS {kind}) x FROM VALUES {values} v(x)")
    with sdf.create_filter(spark, "price", kind) as f:
        f.update(form)
        assert sorted(str(r.x) for r in rows.where(f.matches("x")).collect()) == matching

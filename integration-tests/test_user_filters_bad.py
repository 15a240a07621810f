"""Bad input to user filters: an error that names the filter and its type, and nothing has changed."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support.user_filters import ids

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]


@pytest.fixture
def f(f: sdf.UserFilter) -> sdf.UserFilter:
    f.update(sdf.isin([1, 2]))
    return f


#: The number 1 as a roaring bitmap.
ONE = bytes.fromhex("3a3000000100000000000000100000000100")
#: A filter's type, a form that does not fit it, and what the error says. `UserFormsSuite` has bitmaps.
MISMATCHES: list[tuple[str, sdf.Form, str]] = [
    ("string", sdf.between(1, 2), "1 is no value"),
    ("tinyint", sdf.isin([1, 128]), "128 is no value"),
    ("float", sdf.isin([1e-50]), "1.0E-50 is no value"),
    ("decimal(10,2)", sdf.isin([Decimal("1.005")]), "1.005 is no value"),
    ("decimal(10,2)", sdf.isin([Decimal("NaN")]), "NaN is no value"),
    ("decimal(10,2)", sdf.between(Decimal("-Infinity")), "-Infinity is no"),
    ("decimal(10,2)", sdf.isin([Decimal("1E+999999999")]), "1E.999999999 is no"),
    ("decimal(10,2)", sdf.isin([Decimal("1E-999999999")]), "1E-999999999 is no"),
    ("decimal(2,2)", sdf.isin([1]), "1 is no value"),
    ("decimal(4,2)", sdf.isin([100]), "100 is no value"),
    ("timestamp", sdf.isin([dt.date(2020, 1, 1)]), "a date"),
    ("timestamp_ntz", sdf.between(dt.datetime(2020, 1, 1, tzinfo=dt.UTC)), "with a time zone"),
    ("bigint", sdf.bloom(["x"]), "'x' is no value"),
    ("bigint", sdf.isin([1]) & sdf.between("a", "b"), "'a' is no value"),
    ("string", sdf.bitmap(ONE, size=32), "a bitmap holds integers"),
]


@pytest.mark.parametrize(("kind", "bad", "text"), MISMATCHES)
def test_updates_of_another_type(spark: SparkSession, kind: str, bad: sdf.Form, text: str) -> None:
    with sdf.create_filter(spark, "picky", kind) as f:
        with pytest.raises(sdf.FilterTypeMismatch, match=text) as raised:
            f.update(bad)
        assert f"filter 'picky' of type {kind}" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert f.generation == 0


def test_too_many_bloom_filters(f: sdf.UserFilter) -> None:
    with pytest.raises(sdf.InvalidFilterForm, match="more than 256 Bloom filters"):
        f.update(functools.reduce(operator.and_, [sdf.bloom([i, -i]) for i in range(1, 258)]))
    assert f.generation == 1


@pytest.mark.core
def test_names(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    with pytest.raises(sdf.DuplicateFilter, match="filter 'wanted' of type bigint"):
        sdf.create_filter(spark, "wanted", "int")
    # As before.
    assert ids(spark.table(t).where(f.matches("seq")), "seq") == [1, 2]
    # Any name will do, and finds its way through SQL.
    for name in ("it's", 'a "b"', "back\\slash", "ä日本", "x.y", "SELECT"):
        with sdf.create_filter(spark, name, "bigint") as odd:
            odd.update(sdf.isin([7]))
            assert ids(spark.table(t).where(odd.matches("seq")), "seq") == [7]
            assert odd.snapshot().name == name


def test_closed(spark: SparkSession, t: str) -> None:
    f = sdf.create_filter(spark, "short", "bigint")
    f.update(sdf.isin([1]))
    df = spark.table(t).where(f.matches("seq"))
    assert df.count() == 1
    f.close()
    f.close()
    for use in (
        lambda: f.update(sdf.isin([2])),
        lambda: f.generation,
        lambda: f.snapshot(),
        lambda: f.matches("seq"),
        lambda: f.prunes("seq"),
    ):
        with pytest.raises(sdf.FilterClosed, match="filter 'short' of type bigint is closed"):
            use()
    for query in (
        lambda: df.count(),
        lambda: df.collect(),
        lambda: spark.sql(f"SELECT * FROM {t} WHERE dynamic_filter('short', seq)").collect(),
    ):
        with pytest.raises(Exception, match="filter 'short' of type bigint is closed"):
            query()
    # The name is free again; what the old handle says does not reach the new filter.
    with sdf.create_filter(spark, "short", "string") as again:
        assert again.generation == 0
        f._closed = False
        with pytest.raises(sdf.FilterClosed, match="'short'"):
            f.update(sdf.isin([3]))
        with pytest.raises(sdf.FilterClosed, match="'short'"):
            f.snapshot()
        f.close()
        assert again.generation == 0
        with pytest.raises(Exception, match=r"filter 'short' of type string: .*of type bigint"):
            df.count()


def test_columns(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    table = spark.table(t)
    for column in ("c_double", "c_decimal_int", "c_boolean"):
        with pytest.raises(Exception, match=f"filter 'wanted' of type bigint: .*{column}.* is of type"):
            table.where(f.matches(column)).schema  # noqa: B018
    with pytest.raises(Exception, match="takes a filter's name"):
        table.where("dynamic_filter(NULL, seq)").schema  # noqa: B018
    for kind in ("variant", "interval year to month", ""):
        with pytest.raises(sdf.FilterTypeMismatch, match="filter 'odd' of type"):
            sdf.create_filter(spark, "odd", kind)


def test_names_belong_to_their_session(
    spark: SparkSession,
    new_session: Callable[[], SparkSession],
    t: str,
    f: sdf.UserFilter,
    all_types_path: Path,
) -> None:
    other = new_session()
    table = other.read.parquet(str(all_types_path))
    with pytest.raises(Exception, match="filter 'wanted' is unknown in this session"):
        table.where("dynamic_filter('wanted', seq)").schema  # noqa: B018
    assert other.sql("SELECT * FROM dynamic_user_filters()").count() == 0
    with sdf.create_filter(other, "wanted", "int") as same_name:
        same_name.update(sdf.isin([3]))
        assert ids(table.where("dynamic_filter('wanted', seq)"), "seq") == [3]
        assert ids(spark.table(t).where(f.matches("seq")), "seq") == [1, 2]

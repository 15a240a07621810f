"""Bad input to user filters: an error that names the filter and its type, and nothing has changed."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_dynamic_filters as sdf
from support.user_filters import ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.client, pytest.mark.timeout(120)]


@pytest.fixture
def f(spark: SparkSession) -> Iterator[sdf.UserFilter]:
    with sdf.create_filter(spark, "wanted", "bigint") as made:
        made.update(sdf.isin([1, 2]))
        yield made


def _bytes(*values: int, large: bool = True) -> bytes:
    pyroaring = pytest.importorskip("pyroaring")
    return (pyroaring.BitMap64 if large else pyroaring.BitMap)(values).serialize()


MISMATCH, INVALID = sdf.FilterTypeMismatch, sdf.InvalidFilterForm

UPDATES: dict[str, tuple[str, Callable[[], sdf.Form], type[Exception], str]] = {
    "number for text": ("string", lambda: sdf.between(1, 2), MISMATCH, "1 is no value"),
    "too large": ("tinyint", lambda: sdf.isin([1, 128]), MISMATCH, "128 is no value"),
    "too small": ("float", lambda: sdf.isin([1e-50]), MISMATCH, "1.0E-50 is no value"),
    "too exact": ("decimal(10,2)", lambda: sdf.isin([Decimal("1.005")]), MISMATCH, "1.005 is no value"),
    "no number": ("decimal(10,2)", lambda: sdf.isin([Decimal("NaN")]), MISMATCH, "NaN is no value"),
    "infinite decimal": (
        "decimal(10,2)",
        lambda: sdf.between(Decimal("-Infinity")),
        MISMATCH,
        "-Infinity is no",
    ),
    "huge decimal": (
        "decimal(10,2)",
        lambda: sdf.isin([Decimal("1E+999999999")]),
        MISMATCH,
        "1E.999999999 is no",
    ),
    "tiny decimal": (
        "decimal(10,2)",
        lambda: sdf.isin([Decimal("1E-999999999")]),
        MISMATCH,
        "1E-999999999 is no",
    ),
    "one as a fraction": ("decimal(2,2)", lambda: sdf.isin([1]), MISMATCH, "1 is no value"),
    "too many digits": ("decimal(4,2)", lambda: sdf.isin([100]), MISMATCH, "100 is no value"),
    "date for a timestamp": ("timestamp", lambda: sdf.isin([dt.date(2020, 1, 1)]), MISMATCH, "a date"),
    "zone where there is none": (
        "timestamp_ntz",
        lambda: sdf.between(dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        MISMATCH,
        "with a time zone",
    ),
    "bloom": ("bigint", lambda: sdf.bloom(["x"]), MISMATCH, "'x' is no value"),
    "many Bloom filters": (
        "bigint",
        lambda: functools.reduce(operator.and_, [sdf.bloom([i, -i]) for i in range(1, 258)]),
        INVALID,
        "more than 256 Bloom filters",
    ),
    "second part of a conjunction": (
        "bigint",
        lambda: sdf.isin([1]) & sdf.between("a", "b"),
        MISMATCH,
        "'a' is no value",
    ),
    "bitmap on a string": ("string", lambda: sdf.bitmap(_bytes(1)), MISMATCH, "a bitmap holds integers"),
    "bitmap on a timestamp": ("timestamp", lambda: sdf.bitmap(_bytes(1)), MISMATCH, "a bitmap holds"),
    "negative in a 32-bit bitmap": (
        "int",
        lambda: sdf.bitmap(_bytes(1, (1 << 32) - 5, large=False)),
        MISMATCH,
        "holds 4294967291, which is no int .*no negative numbers",
    ),
    "negative in a 64-bit bitmap": (
        "bigint",
        lambda: sdf.bitmap(_bytes(1, (1 << 64) - 5)),
        MISMATCH,
        "holds 18446744073709551611, which is no bigint",
    ),
    "bitmap of larger numbers": ("int", lambda: sdf.bitmap(_bytes(1 << 31)), MISMATCH, "2147483648"),
    "truncated bitmap": ("bigint", lambda: sdf.bitmap(_bytes(*range(50))[:-3]), INVALID, "bitmap is damaged"),
    "truncated 32-bit bitmap": (
        "bigint",
        lambda: sdf.bitmap(_bytes(*range(50), large=False)[:-3]),
        INVALID,
        "bitmap",
    ),
    "no bytes": ("bigint", lambda: sdf.bitmap(b""), INVALID, "bitmap"),
    "bytes after a bitmap": ("bigint", lambda: sdf.bitmap(_bytes(1) + b"x"), INVALID, "bitmap"),
}


@pytest.mark.parametrize("case", UPDATES)
def test_updates(spark: SparkSession, case: str) -> None:
    kind, form, error, text = UPDATES[case]
    bad = form()
    with sdf.create_filter(spark, "picky", kind) as f:
        with pytest.raises(error, match=text) as raised:
            f.update(bad)
        assert isinstance(raised.value, sdf.DynamicFiltersError)
        assert f"filter 'picky' of type {kind}" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert f.generation == 0


UNSENT: dict[str, tuple[Any, str]] = {
    "surrogate": ("\ud800", "half a character"),
    "duration": (dt.timedelta.max, "too long for a duration"),
    "integer": (1 << 20_000, "integers of 20001 bits"),
}


@pytest.mark.parametrize("case", UNSENT)
def test_values_that_cannot_be_sent(f: sdf.UserFilter, case: str) -> None:
    value, text = UNSENT[case]
    for form in (sdf.isin([value]), sdf.between(value), sdf.bloom([1, value])):
        with pytest.raises(sdf.InvalidArgument, match=text):
            f.update(form)
    assert f.generation == 1


def test_a_name_that_cannot_be_sent(spark: SparkSession) -> None:
    with pytest.raises(sdf.InvalidArgument, match="half a character"):
        sdf.create_filter(spark, "a\ud800", "int")


@pytest.mark.core
def test_names(spark: SparkSession, t: str, f: sdf.UserFilter) -> None:
    with pytest.raises(sdf.DuplicateFilter, match="filter 'wanted' of type bigint"):
        sdf.create_filter(spark, "wanted", "int")
    with pytest.raises(Exception, match="filter 'nobody' is unknown"):
        spark.sql(f"SELECT * FROM {t} WHERE dynamic_filter('nobody', seq)").schema  # noqa: B018
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
    for column in ("c_string", "c_double", "c_decimal_int", "c_date", "c_boolean"):
        with pytest.raises(Exception, match=f"filter 'wanted' of type bigint: .*{column}.* is of type"):
            table.where(f.matches(column)).schema  # noqa: B018
    for text in ("dynamic_filter(NULL, seq)", "dynamic_filter(5, seq)"):
        with pytest.raises(Exception, match="takes a filter's name"):
            table.where(text).schema  # noqa: B018


@pytest.mark.parametrize("kind", ["variant", "interval year to month", ""])
def test_types(spark: SparkSession, kind: str) -> None:
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

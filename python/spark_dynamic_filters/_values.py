"""Python values as messages (proto/dynamic_filter_commands.proto)."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import Any

from ._errors import InvalidArgument, shown

_LONG = 1 << 63
# Far more than any type has, and few enough for Python to make a text of them.
_MOST_BITS = 10_000
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def write_values(to: Any, values: tuple[Any, ...]) -> None:
    to.SetInParent()
    present = [v for v in values if v is not None]
    to.nulls = len(present) < len(values)
    if all(type(v) is int and -_LONG <= v < _LONG for v in present):
        to.integers.extend(present)
    else:
        for value in present:
            write_value(to.others.add(), value)


def write_value(to: Any, value: Any) -> None:
    if isinstance(value, bool):
        to.flag = value
    elif isinstance(value, int):
        if -_LONG <= value < _LONG:
            to.integer = value
        elif value.bit_length() <= _MOST_BITS:
            to.decimal = str(value)
        else:
            raise InvalidArgument(f"a filter takes no integers of {value.bit_length()} bits")
    elif isinstance(value, float):
        to.number = value
    elif isinstance(value, Decimal):
        to.decimal = str(value)
    elif isinstance(value, str):
        if not is_text(value):
            raise InvalidArgument(f"a filter takes no text with half a character: {shown(repr(value))}")
        to.text = value
    elif isinstance(value, (bytes, bytearray)):
        to.data = bytes(value)
    elif isinstance(value, dt.datetime):  # a datetime is a date too, so before dates
        _write_time(to, value)
    elif isinstance(value, dt.date):
        to.date_days = (value - _EPOCH.date()).days
    elif isinstance(value, dt.timedelta):
        try:
            micros = value // _MICROSECOND
        except (OverflowError, ValueError):  # pandas' own
            micros = _LONG
        if not -_LONG <= micros < _LONG:
            raise InvalidArgument(
                f"{shown(value)} is too long for a duration; Spark has 64 bits of microseconds"
            )
        to.duration_micros = micros
    elif isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise InvalidArgument(
                f"{shown(value)} has a time zone, and Spark's TIME has none: leave it out, as "
                "replace(tzinfo=None)"
            )
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        to.time_nanos = (seconds * 1_000_000 + value.microsecond) * 1_000
    else:
        raise InvalidArgument(
            f"{shown(value)} of type {type(value).__name__} is no value; give Python's own, as int, float, "
            "str, bool, bytes, Decimal, date, datetime, time or timedelta"
        )


def is_text(value: str) -> bool:
    """Whether it can be sent: a string of Python's may hold one half of a pair of surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write_time(to: Any, value: dt.datetime) -> None:
    if value.utcoffset() is not None:
        to.instant_micros = (value - _EPOCH_UTC) // _MICROSECOND
    else:
        value = value.replace(tzinfo=None)
        # As PySpark does for a timestamp: in the zone of this process. For timestamp_ntz too: only the server
        # knows the filter's type.
        try:
            seconds = int(time.mktime(value.timetuple()))
        except (OverflowError, NotImplementedError):  # pandas' beyond the year 9999
            raise InvalidArgument(
                f"{shown(value)} cannot be told in this system's time zone; give it one of its own, as "
                "replace(tzinfo=datetime.UTC)"
            ) from None
        to.local.wall_micros = (value - _EPOCH) // _MICROSECOND
        to.local.instant_micros = seconds * 1_000_000 + value.microsecond

"""Commands to the driver as bytes (proto/dynamic_filter_commands.proto), and their way there."""

from __future__ import annotations

import datetime as dt
import time
import uuid
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ._errors import InvalidArgument, missing_protobuf, shown, translated
from ._forms import AllOf, Between, Bitmap, Bloom, Everything, Form, IsIn, Nothing
from ._session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of the schema; the driver refuses any other.
_VERSION = 1

# Far below the 128 MiB that Spark Connect takes in a message, and below limits that proxies may have.
PIECE_BYTES = 2 * 1024 * 1024

# The message's full name in proto/.
_TYPE = "org.dynamicfilters.proto.UserFilterCommand"

_LONG = 1 << 63
# Far more than any type has, and few enough for Python to make a text of them.
_MOST_BITS = 10_000
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def create(spark: SparkSession, name: str, data_type: str, token: str) -> None:
    """Makes a filter known to the session."""
    command = _command()
    command.create.name, command.create.data_type, command.create.token = name, data_type, token
    _send(spark, command)


def update(spark: SparkSession, name: str, token: str, form: Form) -> None:
    """Gives a filter its next generation."""
    command = _command()
    command.update.name, command.update.token = name, token
    _write_form(command.update.form, form)
    _send(spark, command)


def close(spark: SparkSession, name: str, token: str) -> None:
    """Forgets a filter."""
    command = _command()
    command.close.name, command.close.token = name, token
    _send(spark, command)


def _command() -> Any:
    # Only here: classic PySpark alone does not bring protobuf, and most users have no filters of their own.
    try:
        from ._proto.dynamic_filter_commands_pb2 import UserFilterCommand
    except ImportError as error:
        if not (error.name or "").startswith("google"):
            raise
        raise missing_protobuf() from error
    return UserFilterCommand(version=_VERSION)


def _send(spark: SparkSession, command: Any) -> None:
    encoded = command.SerializeToString()
    for piece in _pieces(encoded):
        try:
            if is_connect(spark):
                _by_connect(spark, piece)
            else:
                _by_gateway(spark, piece)
        except Exception as error:
            raise translated(error) or error from None


def _pieces(encoded: bytes) -> Iterator[bytes]:
    """The command, or parts of it that the driver puts together."""
    if len(encoded) <= PIECE_BYTES:
        yield encoded
        return
    upload, crc32 = uuid.uuid4().hex, zlib.crc32(encoded)
    for offset in range(0, len(encoded), PIECE_BYTES):
        part = _command()
        part.part.upload, part.part.offset, part.part.total = upload, offset, len(encoded)
        part.part.crc32, part.part.data = crc32, encoded[offset : offset + PIECE_BYTES]
        yield part.SerializeToString()


def is_command_result(df: Any) -> bool:
    """Whether `df` is what `spark.sql` returned for a command: it ran before there was a DataFrame."""
    spark = df.sparkSession
    if is_connect(spark):
        # For a query the server returns the query's own text as a relation, for a command the rows.
        kind = df._plan.plan(spark.client).WhichOneof("rel_type") or ""
        return type(df._plan).__name__ == "CachedRelation" and kind.endswith("local_relation")
    access = spark._jvm.org.apache.spark.sql.execution.dynamicfilters.QueryAccess
    return bool(access.logicalPlan(df._jdf).nodeName() == "CommandResult")


def run_query(df: Any) -> None:
    """Plans a DataFrame anew, runs it to its end and drops its rows on the way; one SQL execution."""
    spark = df.sparkSession
    if is_connect(spark):
        from ._proto.dynamic_filter_commands_pb2 import RunQuery

        # Not of to_proto, which may compress it and then has no `root`.
        relation = df._plan.plan(spark.client).SerializeToString()
        _by_connect(spark, RunQuery(relation=relation).SerializeToString(), RunQuery.DESCRIPTOR.full_name)
    else:
        access = spark._jvm.org.apache.spark.sql.execution.dynamicfilters.QueryAccess
        access.run(spark._jsparkSession, access.logicalPlan(df._jdf))


def _by_connect(spark: Any, encoded: bytes, type_name: str = _TYPE) -> None:
    from pyspark.sql.connect import proto

    command = proto.Command()
    command.extension.type_url = f"type.googleapis.com/{type_name}"
    command.extension.value = encoded
    spark.client.execute_command(command)


def _by_gateway(spark: Any, encoded: bytes) -> None:
    spark._jvm.org.dynamicfilters.user.UserFilterCommands.handle(spark._jsparkSession, encoded)


def _write_form(to: Any, form: Form) -> None:
    if isinstance(form, Everything):
        to.everything.SetInParent()
    elif isinstance(form, Nothing):
        to.nothing.SetInParent()
    elif isinstance(form, Between):
        to.between.SetInParent()
        if form.lower is not None:
            _write_value(to.between.lower, form.lower)
        if form.upper is not None:
            _write_value(to.between.upper, form.upper)
    elif isinstance(form, IsIn):
        _write_values(to.values, form.values)
    elif isinstance(form, Bitmap):
        to.bitmap.data, to.bitmap.bits = form.data, form.bits
    elif isinstance(form, Bloom):
        _write_values(to.bloom.values, form.values)
        to.bloom.fpp = form.fpp
    elif isinstance(form, AllOf):
        to.all_of.SetInParent()
        for part in form.parts:
            _write_form(to.all_of.parts.add(), part)
    else:
        raise InvalidArgument(
            f"update: expected what between, isin, bitmap, bloom, everything or nothing return, "
            f"got {type(form).__name__}"
        )


def _write_values(to: Any, values: tuple[Any, ...]) -> None:
    to.SetInParent()
    present = [v for v in values if v is not None]
    to.nulls = len(present) < len(values)
    if all(type(v) is int and -_LONG <= v < _LONG for v in present):
        to.integers.extend(present)
    else:
        for value in present:
            _write_value(to.others.add(), value)


def _write_value(to: Any, value: Any) -> None:
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

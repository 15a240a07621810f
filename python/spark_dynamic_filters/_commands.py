"""Commands to the driver as bytes (proto/dynamic_filter_commands.proto), and their way there."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from ._errors import DynamicFiltersError, missing_protobuf, translated
from ._forms import Form
from ._session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of the schema; the driver refuses any other.
_VERSION = 1

# The largest command. Spark Connect takes messages of 128 MiB (spark.connect.grpc.maxInboundMessageSize).
MAX_BYTES = 100 * 1024 * 1024

# The message's full name in proto/.
_TYPE = "org.dynamicfilters.proto.UserFilterCommand"


def create(spark: SparkSession, name: str, data_type: str, token: str) -> None:
    """Makes a filter known to the session."""
    command = _command()
    command.create.name, command.create.data_type, command.create.token = name, data_type, token
    _send(spark, command)


def update(spark: SparkSession, name: str, token: str, form: Form) -> None:
    """Gives a filter its next generation."""
    command = _command()
    command.update.name, command.update.token = name, token
    form._write(command.update.form)
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
    if len(encoded) > MAX_BYTES:
        raise DynamicFiltersError(
            f"the command has {len(encoded):,} bytes; at most {MAX_BYTES:,} can be sent"
        )
    try:
        if is_connect(spark):
            _by_connect(spark, encoded)
        else:
            _by_gateway(spark, encoded)
    except Exception as error:
        raise translated(error) or error from None


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
        context = spark.sparkContext._jsc
        # As PySpark does for collect: else Spark names the query by a line of the gateway.
        context.setCallSite(f"analyze at {_caller()}")
        try:
            access.run(spark._jsparkSession, access.logicalPlan(df._jdf))
        finally:
            context.clearCallSite()


def _caller() -> str:
    """The line of the program that called this package."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "<unknown>"


def _by_connect(spark: Any, encoded: bytes, type_name: str = _TYPE) -> None:
    from pyspark.sql.connect import proto

    command = proto.Command()
    command.extension.type_url = f"type.googleapis.com/{type_name}"
    command.extension.value = encoded
    spark.client.execute_command(command)


def _by_gateway(spark: Any, encoded: bytes) -> None:
    spark._jvm.org.dynamicfilters.user.UserFilterCommands.handle(spark._jsparkSession, encoded)

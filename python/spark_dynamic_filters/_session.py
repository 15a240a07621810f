"""What this package needs to know of a session, without importing one kind or the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import (
    InvalidArgument,
    PluginNotLoaded,
    UnsupportedSpark,
    means_plugin_missing,
    plugin_not_loaded,
    unsupported_spark,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_connect(spark: Any) -> bool:
    """Whether this is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: Any) -> bool:
    """Whether a session has ended."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    context = getattr(spark, "_sc", None)
    return context is not None and context._jsc is None


def require_session(what: str, spark: Any) -> None:
    """Refuses what is no session, or one that has ended.

    Args:
        what: the function that was called, for the message.

    Raises:
        InvalidArgument: it is none, or it was stopped.
    """
    if not callable(getattr(spark, "sql", None)) or not hasattr(spark, "conf"):
        raise InvalidArgument(f"{what}: expected a SparkSession, got {_kind(spark)}")
    if is_stopped(spark):
        raise InvalidArgument(
            f"{what}: the session was stopped; make another with SparkSession.builder.getOrCreate()"
        )


def session_of(what: str, df: Any) -> SparkSession:
    """The session that a DataFrame belongs to.

    Args:
        what: the function that was called, for the message.

    Raises:
        InvalidArgument: it is no DataFrame of Spark's, or its session was stopped.
    """
    spark = getattr(df, "sparkSession", None)
    if spark is None or not hasattr(type(df), "schema"):
        raise InvalidArgument(f"{what}: expected a Spark DataFrame, got {_kind(df)}")
    require_session(what, spark)
    return spark  # type: ignore[no-any-return]


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    module, name = type(value).__module__, type(value).__name__
    if module.startswith("pandas.") and name == "DataFrame":
        return "a pandas DataFrame; spark.createDataFrame(df) makes a Spark DataFrame of it"
    if module.startswith("pyspark.pandas.") and name == "DataFrame":
        return "a pandas-on-Spark DataFrame; df.to_spark() makes a Spark DataFrame of it"
    return "None" if value is None else name


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Runs SQL text that calls one of the plugin's table functions.

    Raises:
        PluginNotLoaded: the table function is not there.
        UnsupportedSpark: the plugin does not support this Spark (also a PluginNotLoaded).
    """
    try:
        df = spark.sql(text)
        # A Connect session analyses lazily: ask for the schema, so that a missing plugin is found here.
        df.schema  # noqa: B018
    except Exception as error:
        if means_plugin_missing(error):
            raise not_loaded(spark) from error
        raise
    return df


def not_loaded(spark: SparkSession) -> PluginNotLoaded:
    """The error for a session without the plugin: what to add, or that its Spark is not supported."""
    refusal = unsupported_spark(spark.version)
    return UnsupportedSpark(refusal) if refusal else plugin_not_loaded(is_connect(spark))

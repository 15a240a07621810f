"""What this package needs to know of a session, without importing one kind or the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import means_plugin_missing, plugin_not_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_connect(spark: Any) -> bool:
    """Whether this is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session_of(df: DataFrame) -> SparkSession:
    """The session that a DataFrame belongs to."""
    return df.sparkSession


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Runs SQL text that calls one of the plugin's table functions.

    Raises:
        PluginNotLoaded: the table function is not there.
    """
    try:
        df = spark.sql(text)
        # A Connect session analyses lazily: ask for the schema, so that a missing plugin is found here.
        df.schema  # noqa: B018
    except Exception as error:
        if means_plugin_missing(error):
            raise plugin_not_loaded(is_connect(spark)) from error
        raise
    return df

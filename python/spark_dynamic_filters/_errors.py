"""Errors a user can meet."""

from __future__ import annotations

import re

from ._version import SPARK_LINES

PLUGIN_CLASS = "org.dynamicfilters.DynamicFiltersPlugin"
EXTENSIONS_CLASS = "org.dynamicfilters.DynamicFiltersExtensions"

# Spark's error conditions for "nobody registered this", by which a missing plugin is recognised.
_NOT_REGISTERED = ("UNRESOLVABLE_TABLE_VALUED_FUNCTION", "SQL_CONF_NOT_FOUND")


class DynamicFiltersError(Exception):
    """Base of this package's errors."""


class InvalidArgument(DynamicFiltersError, TypeError):
    """A function of this package was given something that it does not take, as None for a session."""


class PluginNotLoaded(DynamicFiltersError):
    """The session's Spark application runs without the plugin; the message says what to add."""


class UnsupportedSpark(PluginNotLoaded):
    """The plugin does not support the application's Spark line and stays off."""


class VersionMismatch(DynamicFiltersError):
    """The plugin in the Spark application and this package are of different versions."""


class UnknownSetting(DynamicFiltersError, AttributeError, ValueError):
    """There is no setting of this name below `spark.dynamicFilters.`; the message has the one meant."""


class FilterNotFound(DynamicFiltersError):
    """The session has no filter of this name."""


class FilterClosed(DynamicFiltersError):
    """The filter was closed."""


class DuplicateFilter(DynamicFiltersError, ValueError):
    """The session has an open filter of this name already."""


class FilterTypeMismatch(DynamicFiltersError, ValueError):
    """A value, form or column does not fit the filter's type."""


class InvalidFilterForm(DynamicFiltersError, ValueError):
    """What a filter was to be updated with is wrong in itself, as bytes that are no bitmap."""


# By what the driver's messages start with.
_DRIVER_ERRORS: dict[str, type[Exception]] = {
    "NOT_FOUND": FilterNotFound,
    "CLOSED": FilterClosed,
    "DUPLICATE": DuplicateFilter,
    "TYPE_MISMATCH": FilterTypeMismatch,
    "INVALID_FORM": InvalidFilterForm,
    "INVALID_SETTING": ValueError,
}
_DRIVER_ERROR = re.compile(r"\[DYNAMIC_FILTER_([A-Z_]+)\] ([^\n]*?)(?:\.? SQLSTATE: \w{5})?(?:\n|$)")


def translated(error: Exception) -> Exception | None:
    """The package's own error for one of the plugin's; None for any other. Spark Connect wraps them alike."""
    found = _DRIVER_ERROR.search(str(error))
    return _DRIVER_ERRORS.get(found[1], DynamicFiltersError)(found[2]) if found else None


def missing_protobuf() -> ImportError:
    """The error where user filters are made without the package that encodes them."""
    return ImportError(
        "user filters need the protobuf package, which is not installed: "
        "pip install 'spark-dynamic-filters[filters]', or pip install 'protobuf>=4.25'"
    )


def plugin_not_loaded(connect: bool) -> PluginNotLoaded:
    """The error for a session without the plugin, with instructions for this kind of session."""
    flags = f'--jars "$(python -m spark_dynamic_filters jar)" --conf spark.plugins={PLUGIN_CLASS}'
    if connect:
        fix = (
            "The plugin belongs to the server: start the Spark Connect server with\n"
            f"  {flags}\n"
            "For a server inside this process use\n"
            '  sdf.configure(SparkSession.builder.remote("local[*]")).getOrCreate()'
        )
    else:
        fix = (
            "Create the session with\n"
            "  sdf.configure(SparkSession.builder).getOrCreate()\n"
            "as the first of its Python process (a running JVM takes no further jar),\n"
            "or start spark-submit, spark-shell or spark-sql with\n"
            f"  {flags}"
        )
    return PluginNotLoaded(
        f"the spark-dynamic-filters plugin is not loaded in this Spark application.\n{fix}"
    )


def unsupported_spark(version: str) -> str | None:
    """Why the plugin stays off with this version of Spark; None if the version is supported.

    Args:
        version: as Spark or a distribution of it names it, such as "4.1.4" or "4.2.0-amzn-1".
    """
    if ".".join(re.split(r"\D", version)[:2]) in SPARK_LINES:
        return None
    lines = ", ".join(SPARK_LINES)
    return f"dynamic filters stay off: Spark {shown(version, 30)} is not supported, only {lines} are"


def shown(value: object, most: int = 60) -> str:
    """A value of the user's as error messages show it: on one line, cut where it is long."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def means_plugin_missing(error: Exception) -> bool:
    """Whether Spark says with `error` that one of our functions or settings is not registered.

    Works for the exceptions of classic sessions and of Spark Connect alike: both begin with the condition.
    """
    return any(condition in str(error) for condition in _NOT_REGISTERED)

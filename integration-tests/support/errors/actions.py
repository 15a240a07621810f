"""What causes errors, on a session that has a filter and a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import spark_dynamic_filters as sdf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Too long to be shown.
LONG = "x" * 1000
NAN = float("nan")

#: What is done with a session that has a filter `f` of type bigint, named "wanted", and a table `t`.
Action = Callable[["SparkSession", sdf.UserFilter, Any], object]


def sql(text: str) -> Action:
    return lambda spark, f, t: spark.sql(text.format(t=t)).collect()


def set_(key: str, value: str) -> Action:
    return lambda spark, f, t: spark.conf.set(key, value)


def update(form: Callable[[], sdf.Form]) -> Action:
    return lambda spark, f, t: f.update(form())


def where(condition: str) -> Action:
    return lambda spark, f, t: spark.table(t).where(condition).collect()


def with_(manager: Callable[[Any], Any]) -> Action:
    def enter(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
        with manager(spark):
            pass

    return enter


def closed(spark: SparkSession, f: sdf.UserFilter, t: str) -> None:
    f.close()
    f.update(sdf.everything())


K = "spark.dynamicFilters."
SESSION: Any = None

#: An action, the error's type (None for Spark's AnalysisException), its text.
Case = tuple[Action, type[Exception] | None, str]

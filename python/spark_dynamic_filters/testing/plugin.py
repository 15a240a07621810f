"""The pytest plugin: option `--spark-mode`, fixtures `spark`, `spark_mode`, `spark_config`,
`assert_same_result`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

# Importing the package imports no PySpark, which takes long: pytest loads this file wherever the package is
# installed, also for tests that have nothing to do with Spark.
from ._modes import MODES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ._differential import SameResult
    from ._modes import SparkApplication


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("spark-dynamic-filters").addoption(
        "--spark-mode",
        choices=MODES,
        default="classic",
        help="what the `spark` fixture is: one JVM, a driver with two executors, or a Spark Connect server",
    )


@pytest.fixture(scope="session")
def spark_mode(request: pytest.FixtureRequest) -> str:
    """The value of `--spark-mode`: "classic", "local-cluster" or "connect"."""
    return str(request.config.getoption("--spark-mode"))


@pytest.fixture(scope="session")
def spark_config() -> dict[str, str]:
    """Spark settings for the `spark` fixture's application. Override it in a conftest.py to add some."""
    return {}


@pytest.fixture(scope="session")
def spark_application(spark_mode: str, spark_config: dict[str, str]) -> Iterator[SparkApplication]:
    """The running Spark application that all test modules share."""
    from ._modes import start_application

    application = start_application(spark_mode, spark_config)
    yield application
    application.stop()


@pytest.fixture(scope="module")
def spark(spark_application: SparkApplication) -> Iterator[SparkSession]:
    """A Spark session with dynamic filters; settings and temporary views are the module's own."""
    session = spark_application.new_session()
    yield session
    spark_application.close_session(session)


@pytest.fixture
def assert_same_result(spark: SparkSession) -> Callable[..., SameResult]:
    """`spark_dynamic_filters.testing.assert_same_result` for the `spark` fixture: call it with the query."""
    from ._differential import assert_same_result as check

    return functools.partial(check, spark)

"""Settings and data of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_config() -> dict[str, str]:
    """Settings for the Spark that the plugin starts; small data needs few tasks."""
    return {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables' files are."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, data: Path) -> None:
    """The tables `sales` and `shops`, as Parquet files with several row groups."""
    if not (data / "sales").exists():
        spark.range(20_000).selectExpr(
            "id",
            "date_add(DATE'2024-01-01', CAST(id DIV 60 AS INT)) AS day",
            "CAST(id % 50 AS INT) AS shop",
            "CAST(pmod(hash(id), 1000) AS INT) AS amount",
        ).write.option("parquet.block.size", 16_384).parquet(str(data / "sales"))
        spark.range(50).selectExpr(
            "CAST(id AS INT) AS shop", "IF(id < 5, 'north', 'south') AS region"
        ).write.parquet(str(data / "shops"))
    for name in ("sales", "shops"):
        spark.read.parquet(str(data / name)).createOrReplaceTempView(name)

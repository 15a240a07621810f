"""The code that is tested: a few queries over sales."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def latest(spark: SparkSession, n: int) -> DataFrame:
    """The n latest sales, with all columns."""
    return spark.table("sales").orderBy("day", "id", ascending=False).limit(n)


def sales_in(spark: SparkSession, region: str) -> DataFrame:
    """The sales of the shops of a region."""
    shops = spark.table("shops").where(f"region = '{region}'")
    return spark.table("sales").join(shops, "shop")


def first_and_last_day(spark: SparkSession) -> DataFrame:
    """One row: the days of the first and of the last sale above 900."""
    return spark.sql("SELECT min(day) AS first, max(day) AS last FROM sales WHERE amount > 900")

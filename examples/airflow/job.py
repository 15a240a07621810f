"""The job of the DAG beside it."""

from __future__ import annotations

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(1_000_000).write.mode("overwrite").parquet("/tmp/orders")
spark.read.parquet("/tmp/orders").orderBy("id").limit(10).collect()
spark.sql("SELECT state, expression FROM dynamic_filters()").show(truncate=False)

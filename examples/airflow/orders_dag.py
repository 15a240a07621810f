"""Two ways to run Spark with dynamic filters in Airflow: a job by spark-submit, and a function."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import dag, task

from spark_dynamic_filters import jar_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN = {"spark.plugins": "org.dynamicfilters.DynamicFiltersPlugin"}


@dag(schedule=None)
def orders() -> None:
    job = SparkSubmitOperator(
        task_id="job",
        application=str(Path(__file__).with_name("job.py")),
        jars=jar_path(),
        conf=PLUGIN,
    )

    @task.pyspark(config_kwargs={"spark.jars": jar_path(), **PLUGIN})
    def newest(spark: SparkSession) -> int:
        top = spark.read.parquet("/tmp/orders").orderBy("id", ascending=False).limit(10).collect()
        spark.sql("SELECT state, expression FROM dynamic_filters()").show(truncate=False)
        return int(top[0]["id"])

    job >> newest()


made = orders()

if __name__ == "__main__":
    made.test()

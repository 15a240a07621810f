"""Sessions whose executors are processes of their own."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf


def session(app: str, settings: Mapping[str, str]) -> SparkSession:
    """Two executors of one core and 1 GB each; quiet, without the web interface."""
    quiet = {
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName(app)
    return sdf.configure(builder.config(map={**quiet, **settings})).getOrCreate()

#!/bin/sh
# A Spark Connect server with the plugin, on port 15002. Arguments go to spark-submit.
exec spark-submit --master "local[*]" "$@" \
  --class org.apache.spark.sql.connect.service.SparkConnectServer \
  --jars "$(python -m spark_dynamic_filters jar)" \
  --conf spark.plugins=org.dynamicfilters.DynamicFiltersPlugin \
  spark-internal

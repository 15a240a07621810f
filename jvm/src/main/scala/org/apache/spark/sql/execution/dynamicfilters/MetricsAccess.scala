package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** Metrics of operators. */
object MetricsAccess {
  def sum(sc: SparkContext, name: String): SQLMetric = SQLMetrics.createMetric(sc, name)
  def size(sc: SparkContext, name: String): SQLMetric = SQLMetrics.createSizeMetric(sc, name)

  /** Makes metrics that the driver has set visible in the UI. */
  def postDriverUpdates(sc: SparkContext, executionId: String, metrics: Seq[SQLMetric]): Unit =
    SQLMetrics.postDriverMetricUpdates(sc, executionId, metrics)
}

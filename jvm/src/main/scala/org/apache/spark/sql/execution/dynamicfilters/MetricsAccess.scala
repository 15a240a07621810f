package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates

/** Metrics of operators. */
object MetricsAccess {

  /** Adds to metrics on the driver, visible in the UI. */
  def addOnDriver(sc: SparkContext, execution: Option[Long], values: Seq[(SQLMetric, Long)]): Unit = {
    values.foreach { case (metric, value) => metric.add(value) }
    execution.foreach { id =>
      sc.listenerBus.post(SparkListenerDriverAccumUpdates(id, values.map { case (m, value) => (m.id, value) }))
    }
  }
}

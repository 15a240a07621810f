package org.dynamicfilters

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}
import org.dynamicfilters.lifecycle.{DriverSide, ExecutorSide, SparkLines}

/** `spark.plugins=org.dynamicfilters.DynamicFiltersPlugin`: the one setting that a user needs beside the jar. Does nothing on a
  * Spark line that is not supported.
  */
class DynamicFiltersPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = if (SparkLines.isSupported) new DriverSide else null
  override def executorPlugin(): ExecutorPlugin = if (SparkLines.isSupported) new ExecutorSide else null
}

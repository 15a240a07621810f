package org.dynamicfilters

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}
import org.dynamicfilters.lifecycle.{DriverSide, ExecutorSide}

/** `spark.plugins=org.dynamicfilters.DynamicFiltersPlugin`: the one setting that a user needs beside the jar. */
class DynamicFiltersPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverSide
  override def executorPlugin(): ExecutorPlugin = new ExecutorSide
}

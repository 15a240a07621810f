package org.dynamicfilters.lifecycle

import org.apache.spark.SPARK_VERSION
import org.slf4j.LoggerFactory

/** The Spark lines that the plugin supports. On any other line the plugin stays off and Spark works as without it.
  *
  * Uses the library of Java alone: Spark 3.5 may run with Scala 2.12, where a class that uses collections of Scala 2.13 fails
  * when it is loaded.
  */
object SparkLines {
  private val supported = java.util.Arrays.asList("4.1", "4.2", "4.3")
  private val warned = new java.util.concurrent.atomic.AtomicBoolean

  /** Whether this process runs a supported Spark. If not, the log gets one line about it. */
  def isSupported: Boolean = {
    val found = isSupported(SPARK_VERSION)
    if (!found && warned.compareAndSet(false, true))
      LoggerFactory
        .getLogger("org.dynamicfilters.DynamicFiltersPlugin")
        .warn("Dynamic filters stay off: Spark " + SPARK_VERSION + " is not supported, only " + text + " are")
    found
  }

  /** @param version
    *   as Spark or a distribution of it names it, such as `4.1.4` or `4.2.0-amzn-1`
    */
  private[lifecycle] def isSupported(version: String): Boolean = {
    val numbers = version.split("[^0-9]")
    numbers.length > 1 && supported.contains(numbers(0) + "." + numbers(1))
  }

  private def text = String.join(", ", supported)
}

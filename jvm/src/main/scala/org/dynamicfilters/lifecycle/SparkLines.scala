package org.dynamicfilters.lifecycle

import org.apache.spark.SPARK_VERSION
import org.slf4j.LoggerFactory

/** Where the plugin works: on the Spark lines that it supports, with Spark Connect's jar. Elsewhere it stays off, and Spark works
  * as without it.
  *
  * Uses the library of Java alone: Spark 3.5 may run with Scala 2.12, where a class that uses collections of Scala 2.13 fails
  * when it is loaded.
  */
object SparkLines {
  private val supported = java.util.Arrays.asList("4.1", "4.2", "4.3")
  private val warned = new java.util.concurrent.atomic.AtomicBoolean

  /** Whether the plugin works in this process. If not, the log gets one line about it. */
  def isSupported: Boolean = {
    val refusal =
      if (!isSupported(SPARK_VERSION))
        "Spark " + SPARK_VERSION + " is not supported, only " + String.join(", ", supported) + " are"
      else if (!hasProtobuf) "the class path lacks the jar spark-connect, whose protobuf they need"
      else null
    if (refusal != null && warned.compareAndSet(false, true))
      LoggerFactory
        .getLogger("org.dynamicfilters.DynamicFiltersPlugin")
        .warn("Dynamic filters stay off: " + refusal)
    refusal == null
  }

  /** @param version
    *   as Spark or a distribution of it names it, such as `4.1.4` or `4.2.0-amzn-1`
    */
  private[lifecycle] def isSupported(version: String): Boolean = {
    val numbers = version.split("[^0-9]")
    numbers.length > 1 && supported.contains(numbers(0) + "." + numbers(1))
  }

  /** Whether our messages link: distributions of Spark have Spark Connect, an application that depends on spark-sql only has not. */
  private def hasProtobuf: Boolean =
    try Class.forName("org.dynamicfilters.proto.UserFilterCommand", true, getClass.getClassLoader) != null
    catch { case _: LinkageError => false }
}

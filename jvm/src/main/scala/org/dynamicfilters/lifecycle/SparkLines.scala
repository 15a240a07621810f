package org.dynamicfilters.lifecycle

import org.apache.spark.SPARK_VERSION
import org.slf4j.LoggerFactory

/** Whether the plugin works in this process: it needs a supported Spark line and Spark Connect's jar. Otherwise it stays off, and
  * Spark works as without it.
  *
  * Uses only the Java library. Spark 3.5 may run with Scala 2.12, which cannot load classes that use collections of Scala 2.13.
  */
object SparkLines {
  private val supported = java.util.Arrays.asList("4.1", "4.2", "4.3")
  private val warned = new java.util.concurrent.atomic.AtomicBoolean

  /** Whether the plugin works in this process. If not, it writes one line to the log. */
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

  /** @param version the version of Spark or of a distribution, such as `4.1.4` or `4.2.0-amzn-1` */
  private[lifecycle] def isSupported(version: String): Boolean = {
    val numbers = version.split("[^0-9]")
    numbers.length > 1 && supported.contains(numbers(0) + "." + numbers(1))
  }

  /** Whether the protobuf classes of Spark Connect's jar are there. Distributions of Spark have the jar, an application that
    * depends on spark-sql alone has not.
    */
  private def hasProtobuf: Boolean =
    try Class.forName("org.dynamicfilters.proto.UserFilterCommand", true, getClass.getClassLoader) != null
    catch { case _: LinkageError => false }
}

package org.dynamicfilters.filter

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable

/** Extractor of failures in our code that must not fail the query: an exception; a class or method that this version of
  * Spark or of a table format lacks; a stack overflow by a deep plan. It does not match interrupts, the end of a
  * cancelled job, and errors that end a process.
  */
object PluginFailure {
  def unapply(e: Throwable): Option[Throwable] = e match {
    case NonFatal(_) | _: LinkageError | _: StackOverflowError => Some(e).filterNot(isCancelled)
    case _ => None
  }

  // For example of a job that reads a table's log. A user who cancels it means the query.
  private def isCancelled(e: Throwable): Boolean =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(MostCauses).exists {
      case s: SparkThrowable => s.getCondition == "SPARK_JOB_CANCELLED"
      case _ => false
    }
  private val MostCauses = 20
}

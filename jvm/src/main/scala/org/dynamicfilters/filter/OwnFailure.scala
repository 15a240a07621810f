package org.dynamicfilters.filter

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable

/** Whatever of ours may fail without the query: a class or method that another version of Spark, or of a table format, has not;
  * a plan too deep for the stack; any exception. Not an interrupt or the end of a job that was cancelled, nor what ends a process.
  */
object OwnFailure {
  def unapply(e: Throwable): Option[Throwable] = e match {
    case NonFatal(_) | _: LinkageError | _: StackOverflowError => Some(e).filterNot(isCancelled)
    case _ => None
  }

  // Of a job that reads a table's log, say: whoever cancels that means the query.
  private def isCancelled(e: Throwable): Boolean =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(MostCauses).exists {
      case s: SparkThrowable => s.getCondition == "SPARK_JOB_CANCELLED"
      case _ => false
    }
  private val MostCauses = 20
}

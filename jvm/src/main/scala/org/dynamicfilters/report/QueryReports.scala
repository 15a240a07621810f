package org.dynamicfilters.report

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.dynamicfilters.SqlMetricsAccess
import org.dynamicfilters.exchange.{FilterAccumulator, FilterRef}
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.scan.ScanAccumulator

/** State of a filter as `dynamic_filters()` shows it. */
object FilterState extends Enumeration {
  val registered, building, ready, disabled = Value
}

/** One filter in the executions of one plan.
  *
  * @param columns
  *   names of the scans' columns that it filters
  */
final class FilterRun(val ref: FilterRef, val columns: Seq[String], val accumulator: FilterAccumulator) {
  @volatile var disabled: Option[String] = None

  /** The highest generation in an execution, and the tightest bound that any executor reported. */
  def current(executionId: Long): (Long, ValueFilter) = {
    val seen = accumulator.value.filter(_.executionId == executionId)
    val filters =
      seen.filter(_.bound != null).flatMap(s => Try(FilterCodec.decode(s.bound)).toOption.flatMap(_.toOption))
    val tightest = filters.reduceOption((a, b) => if (a.implies(b)) a else b).getOrElse(ValueFilter.All)
    (if (seen.isEmpty) 0L else seen.map(_.generation).max, tightest)
  }

  def encodedBytes(executionId: Long): Long =
    accumulator.value.iterator
      .filter(s => s.executionId == executionId && s.bound != null)
      .map(_.bound.length.toLong)
      .maxOption
      .getOrElse(0L)

  /** The filter in force, as in a SQL text. */
  def expression(executionId: Long, column: String, showValues: Boolean): String = {
    val (_, filter) = current(executionId)
    if (showValues || filter == ValueFilter.All || filter == ValueFilter.Nothing) filter.expression(column)
    else "hidden"
  }

  /** The same in the newest execution. */
  def lastExpression(column: String, showValues: Boolean): String =
    expression(accumulator.value.map(_.executionId).maxOption.getOrElse(-1L), column, showValues)
}

/** One scan in the executions of one plan. */
final class ScanRun(
    val scanId: Long,
    val tableName: String,
    val filterIds: Seq[Long],
    val filesTotal: Long,
    val accumulator: ScanAccumulator
)

/** A producer that the planner considered and rejected. */
final case class Rejected(producer: String, columns: Seq[String], reason: String)

/** What is known of one SQL execution. */
final class QueryReport(val executionId: Long) {
  @volatile var sessionId: String = _
  @volatile var description: String = ""
  @volatile var tags: Seq[String] = Nil
  @volatile var state: String = "running"
  @volatile var plan: String = ""
  val filters = mutable.ArrayBuffer.empty[FilterRun]
  val scans = mutable.ArrayBuffer.empty[ScanRun]
  val rejected = mutable.LinkedHashSet.empty[Rejected]

  /** Whether there is anything to show. */
  def isOfInterest: Boolean = synchronized(filters.nonEmpty || scans.nonEmpty || rejected.nonEmpty)
}

/** The newest queries' reports, on the driver.
  *
  * Bounded: the oldest are forgotten first. Queries of which we know nothing but that they ran are kept in a shorter list of
  * their own, so that they do not push out those with filters.
  */
final class QueryReports extends Logging {
  private val reports = mutable.LinkedHashMap.empty[Long, QueryReport]
  @volatile var retained: Int = 100

  def forExecution(id: Long): QueryReport = synchronized {
    reports.getOrElseUpdate(
      id, {
        while (reports.size >= math.max(retained, 1) * QueryReports.Slack) trim()
        new QueryReport(id)
      }
    )
  }

  /** Notes something of the running execution; on the driver. Never fails: a report is not worth a query.
    *
    * @param executionId
    *   Spark's local property, null outside of an execution
    */
  def note(executionId: String, session: SparkSession)(change: QueryReport => Unit): Unit =
    try
      Option(executionId).flatMap(_.toLongOption).foreach { id =>
        val report = forExecution(id)
        report.synchronized {
          if (report.sessionId == null && session != null) report.sessionId = SqlMetricsAccess.sessionId(session)
          change(report)
        }
      }
    catch { case NonFatal(e) => logWarning("Dynamic filters: a query is missing from the report", e) }

  private def trim(): Unit = {
    val victim = reports.valuesIterator
      .find(r => !r.isOfInterest && r.state != "running")
      .orElse(reports.valuesIterator.nextOption())
    victim.foreach(r => reports.remove(r.executionId))
  }

  /** The retained reports of a session, oldest first. */
  def ofSession(sessionId: String): Seq[QueryReport] = synchronized {
    val own = reports.valuesIterator.filter(_.sessionId == sessionId).toVector
    val (shown, plain) = own.partition(_.isOfInterest)
    (shown.takeRight(retained) ++ plain.takeRight(retained)).sortBy(_.executionId)
  }
}

object QueryReports {
  private val Slack = 2
  val instance = new QueryReports
}

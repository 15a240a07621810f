package org.dynamicfilters.report

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.{ScanCounter, ScanRun}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{
  FilterRef, FilterTimes, JoinPhase, JoinState, PlanRun, Producer, SubqueryState, TaskFilters, TopKAccumulator,
  UserState
}

/** State of a filter as `dynamic_filters()` shows it. */
object FilterState extends Enumeration {
  val registered, building, ready, disabled = Value
}

/** A filter as `dynamic_filters()` shows it.
  *
  * @param reason None if there is nothing to explain
  * @param bytes of the encoded filter
  * @param waitMillis how long scans were held back for it
  * @param readyMillis from the start of the producer to the complete filter; None if there is no such time
  * @param times by the clock
  */
final case class FilterView(
    filterId: Long,
    producer: Producer.Value,
    columns: Seq[String],
    state: FilterState.Value = FilterState.registered,
    reason: Option[Reason] = None,
    generation: Long = 0,
    filter: FilterText = FilterText.All,
    bytes: Long = 0,
    waitMillis: Long = 0,
    readyMillis: Option[Long] = None,
    times: FilterTimes = FilterTimes()
) {

  /** The same filter, complete. */
  def complete(f: ValueFilter, size: Long): FilterView =
    copy(state = FilterState.ready, generation = 1, filter = FilterText.forFilter(f, columns), bytes = size)

  def disabled(why: Reason): FilterView = copy(state = FilterState.disabled, reason = Some(why))
}

/** The texts that reports show of a filter. They replace the filter itself, which may have megabytes.
  *
  * @param expression the condition as in a SQL text
  * @param hasValues whether the text contains values of the data
  */
final case class FilterText(form: String, expression: String, hasValues: Boolean) {

  /** The condition, or that it is hidden. */
  def shown(showValues: Boolean): String = if (showValues || !hasValues) expression else ValueFilter.Hidden
}

object FilterText {
  val All: FilterText = forFilter(ValueFilter.All, Nil)

  /** @param columns names of the filtered columns; a union has one for each of its branches */
  def forFilter(filter: ValueFilter, columns: Seq[String]): FilterText =
    FilterText(filter.form, filter.expression(columns.headOption.getOrElse("")), filter.hasValues)
}

/** A filter as reports keep it. */
trait FilterRecord {

  /** @param running whether the execution has not ended yet */
  def view(executionId: Long, running: Boolean): FilterView
}

/** A filter of an execution that has ended. */
final case class EndedFilter(last: FilterView) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = last
}

/** A join's filter. All executions of a plan share its state. */
final case class JoinRun(state: JoinState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    val planned = FilterView(
      state.filterId,
      Producer.join,
      state.record.columnNames,
      waitMillis = state.record.waitedMillis,
      readyMillis = state.record.readyMillis,
      times = state.times
    )
    // Called on the thread of Spark's listeners.
    (if (running) state.phase else state.phaseAtEnd) match {
      case JoinPhase.Registered => planned.copy(reason = Option.when(!running)(Reasons.BuildDidNotRun))
      case JoinPhase.Building(_, reports) =>
        val reason =
          if (state.isIncomplete) Some(Reasons.Incomplete)
          else if (running) None
          else Some(if (reports == JoinPhase.Reports.All) Reasons.NotAsked else Reasons.BuildDidNotFinish)
        // Nothing is built once the query has ended.
        planned.copy(state = if (running) FilterState.building else FilterState.registered, reason = reason)
      case JoinPhase.Ready(f, bytes, reduced, _) =>
        val late = Option.when(!running && state.scansStartedWithout)(Reasons.TooLate)
        planned.complete(f, bytes).copy(reason = reduced.orElse(late))
      case JoinPhase.Disabled(reason) => planned.disabled(reason)
    }
  }
}

/** A TopK's filter in the executions of one plan.
  *
  * @param columns names of the scans' columns that it filters
  * @param showValues whether plans may show values of the data
  */
final class TopKRun(
    val ref: FilterRef,
    val columns: Seq[String],
    showValues: Boolean,
    val accumulator: TopKAccumulator
) extends FilterRecord
    with PlanRun {
  @volatile var disabled: Option[Reason] = None
  private val registeredMillis = System.currentTimeMillis()

  // One for each finished task, also for tasks that saw no bound.
  private def seenIn(executionId: Long) = accumulator.value.filter(_.executionId == executionId)

  /** The tightest of the bounds. */
  private def tightest(bounds: Seq[Array[Byte]]): ValueFilter =
    bounds
      .flatMap(b => Try(FilterCodec.decode(b)).toOption.flatMap(_.toOption))
      .reduceOption((a, b) => if (a.implies(b)) a else b)
      .getOrElse(ValueFilter.All)

  override def view(executionId: Long, running: Boolean): FilterView = {
    val seen = seenIn(executionId)
    val bounds = seen.map(_.bound).filter(_ != null)
    val generation = seen.map(_.generation).maxOption.getOrElse(0L)
    val state =
      if (disabled.isDefined) FilterState.disabled
      else if (generation > 0) FilterState.ready
      else if (running) FilterState.building
      else FilterState.registered
    def none =
      if (seen.isEmpty) Reasons.NotRead
      else if (ref.producer == Producer.aggregate) Reasons.NoValue
      else Reasons.FewRows
    FilterView(
      ref.id,
      ref.producer,
      columns,
      state,
      disabled.orElse(Option.when(generation == 0 && !running)(none)),
      generation,
      FilterText.forFilter(tightest(bounds), columns),
      bounds.map(_.length.toLong).maxOption.getOrElse(0L),
      times = FilterTimes(registeredMillis, ready = seen.map(_.firstMillis).filter(_ > 0).minOption.getOrElse(0L))
    )
  }

  override def shown(column: String): String = {
    val newest = accumulator.value.map(_.executionId).maxOption.getOrElse(-1L)
    tightest(seenIn(newest).map(_.bound).filter(_ != null)).shown(column, showValues)
  }
}

/** A producer that the planner considered and rejected. */
final case class Rejected(producer: Producer.Value, columns: Seq[String], reason: Reason)

/** The report of one SQL execution. */
final class QueryReport(val executionId: Long) {
  @volatile var sessionId: String = _
  @volatile var description: String = ""
  @volatile var tags: Seq[String] = Nil
  @volatile var state: String = "running"
  @volatile var plan: String = ""

  /** Spark's call site of the query: lines of a stack trace. */
  @volatile var callSite: String = ""

  /** Milliseconds since 1970; 0 if unknown. */
  @volatile var startedMillis, endedMillis = 0L

  /** Whether the query's session allows reports to show values of the data; None if unknown. */
  @volatile var showValues: Option[Boolean] = None

  /** Takes over the session's setting. Values that were hidden once stay hidden. */
  def showsAs(session: SparkSession): Unit = synchronized {
    showValues = Some(showValues.getOrElse(true) && Settings.showsValues(session.sessionState.conf))
  }

  /** Why the query has no filter, if none was rejected either. */
  @volatile var noFilter: NoFilter.Value = NoFilter.nothingMakesOne

  /** The query that runs this one as a part of it, such as a MERGE of Delta; None for a query of its own. */
  @volatile var partOf: Option[Long] = None

  private val processor = new AtomicLong

  /** Adds the processor time of a stage's tasks. */
  def addProcessorNanos(nanos: Long): Unit = processor.addAndGet(nanos)

  /** Processor time of the tasks of all stages that have ended, in milliseconds. */
  def processorMillis: Long = TimeUnit.NANOSECONDS.toMillis(processor.get)
  val filters = mutable.ArrayBuffer.empty[FilterRecord]
  val scans = mutable.ArrayBuffer.empty[ScanRun]
  val rejected = mutable.LinkedHashSet.empty[Rejected]

  /** Records why a producer makes no filter. The first reason for the same columns stays. */
  def reject(r: Rejected): Unit = synchronized {
    if (!rejected.exists(x => x.producer == r.producer && x.columns == r.columns)) rejected += r
  }

  /** Removes a rejection of a producer that makes a filter now. Equal rejections of other operators return when the query
    * ends, from the operators' tags (`QueryListener`).
    */
  def withdraw(r: Rejected): Unit = synchronized(rejected -= r)

  def add(f: FilterRecord): Unit = synchronized(if (!filters.contains(f)) filters += f)

  /** The filters as they are now. Without the lock: viewing a filter may build it, and a running query must not wait for that. */
  def views: Seq[FilterView] = synchronized(filters.toVector).map(_.view(executionId, running = state == "running"))

  @volatile private var atEnd: Option[QueryEntry] = None

  /** The entry of the ended query, or the current state of a running one. */
  def entry: QueryEntry = atEnd.getOrElse(QueryEntries.fromReport(this))

  /** Completes the report. Replaces the filters by their texts, so that the report holds no keys, plans or broadcasts. Keeps the
    * entry, because a plan that runs often drops the counters of its first executions.
    */
  def ended(state: String): Unit = synchronized {
    this.state = state
    scans.foreach(_.ended(executionId))
    filters.mapInPlace(f => EndedFilter(f.view(executionId, running = false)))
    atEnd = Some(QueryEntries.fromReport(this))
  }

  /** Whether the execution has succeeded. Only then files that no task reached count as skipped. */
  def cameToEnd: Boolean = state == "finished"

  /** For the log, once the execution has ended. Parsed by tools/test_spark.py. */
  def summary: String = synchronized {
    val ready = views.count(_.state == FilterState.ready)
    val reports = scans.map(_.report(executionId))
    val pruned = reports.map(r => r(ScanCounter.Rows) - r(ScanCounter.RowsOutput)).sum
    s"ended: $ready of ${filters.size} filters ready, ${scans.size} filtered scans, $pruned rows pruned"
  }

  /** Whether the report has a filter, a scan or a rejected producer. */
  def isOfInterest: Boolean = synchronized(filters.nonEmpty || scans.nonEmpty || rejected.nonEmpty)
}

/** The newest queries' reports, on the driver.
  *
  * The oldest reports are dropped first. Reports without a filter, scan or rejected producer are dropped before the others.
  */
final class QueryReports extends Logging {
  private val reports = mutable.LinkedHashMap.empty[Long, QueryReport]
  @volatile var retained: Int = 100

  def forExecution(id: Long): QueryReport = synchronized {
    reports.getOrElseUpdate(
      id, {
        while (reports.nonEmpty && reports.size >= math.max(retained, 1) * QueryReports.Slack) trim()
        new QueryReport(id)
      }
    )
  }

  /** Changes the report of the execution that this thread of the driver works for, if any. Never throws: a report must not fail a
    * query.
    */
  def note(session: SparkSession)(change: QueryReport => Unit): Unit =
    try
      TaskFilters.executionId(session.sparkContext).foreach { id =>
        val report = forExecution(id)
        report.synchronized {
          if (report.sessionId == null) report.sessionId = SparkAccess.sessionId(session)
          change(report)
          report.showsAs(session)
        }
      }
    catch { case NonFatal(e) => logWarning("Dynamic filters: a query is missing from the report", e) }

  /** Drops all reports, at the end of the application. */
  def clear(): Unit = synchronized(reports.clear())

  /** Whether the query has run another one as a part of it. */
  def hasPart(id: Long): Boolean = synchronized(reports.values.exists(_.partOf.contains(id)))

  /** The report of an execution, if it is still kept. */
  def find(executionId: Long): Option[QueryReport] = synchronized(reports.get(executionId))

  /** The retained reports of all sessions that are of interest, oldest first. */
  def ofInterest: Seq[QueryReport] =
    all.filter(_.isOfInterest).takeRight(retained).sortBy(_.executionId)

  /** A copy, because reports have locks of their own. */
  private def all: Vector[QueryReport] = synchronized(reports.valuesIterator.toVector)

  /** Drops the oldest ended query of the larger kind: with filters, or without. So the newest query of each kind stays. */
  private def trim(): Unit = {
    val (shown, plain) = reports.values.toSeq.partition(_.isOfInterest)
    val larger = if (shown.size > plain.size) shown else plain
    larger.find(_.state != "running").orElse(reports.values.headOption).foreach(r => reports.remove(r.executionId))
  }

  /** The retained reports of a session, oldest first. */
  def ofSession(sessionId: String): Seq[QueryReport] = {
    val own = all.filter(_.sessionId == sessionId)
    val (shown, plain) = own.partition(_.isOfInterest)
    (shown.takeRight(retained) ++ plain.takeRight(retained)).sortBy(_.executionId)
  }
}

object QueryReports {
  // A Long: twice the largest value of the setting overflows an Int.
  private val Slack = 2L
  val instance = new QueryReports
}

/** A user's filter in one execution. */
final case class UserRun(state: UserState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    val g = state.newest
    FilterView(
      state.ref.id,
      Producer.user,
      state.columnNames,
      FilterState.ready,
      state.reason.map(Reasons.AboveScan),
      g.number,
      FilterText.forFilter(g.filter, state.columnNames),
      g.sizeBytes,
      readyMillis = Some(0),
      times = FilterTimes(state.sinceMillis, state.sinceMillis, state.sinceMillis)
    )
  }
}

/** A subquery's filter. All executions of a plan share its state. */
final case class SubqueryRun(state: SubqueryState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    val planned = FilterView(state.filterId, Producer.subquery, state.columnNames, times = state.filterTimes)
    state.outcome match {
      case None => planned.copy(reason = Option.when(!running)(Reasons.NotRead))
      case Some(Left(reason)) => planned.disabled(reason)
      case Some(Right(f)) => planned.complete(f, FilterCodec.sizeOf(f))
    }
  }
}

/** Marks the relations of our table functions. A query over such a relation gets no report. */
trait ReportRows

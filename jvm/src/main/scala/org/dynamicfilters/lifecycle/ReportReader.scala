package org.dynamicfilters.lifecycle

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.exchange.{DriverExchange, ExchangeCounters, LiveCounts}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.report.{FilterView, QueryReport, QueryReports}
import org.dynamicfilters.scan.{ScanCounter, ScanReport}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{Executions, TestHooks}
import org.dynamicfilters.user.UserFilters

/** Makes the rows of the table functions for one session. */
private[lifecycle] final class ReportReader(session: SparkSession) {
  import ReportReader._

  private val showValues = Settings.showsValues(session.sessionState.conf)

  private lazy val reports: Seq[QueryReport] = now()

  private def now(): Seq[QueryReport] = {
    // Reports are completed on the listener's thread, possibly after the query has returned its rows.
    SparkAccess.awaitListeners(session.sparkContext, 5000)
    QueryReports.instance.ofSession(SparkAccess.sessionId(session))
  }

  /** The queries that ran under a tag, by execution id. Waits until they have ended: a Spark Connect client has its rows before
    * the execution ends, and the session of a query may be known only at its end.
    */
  def under(tag: String): Seq[Row] = {
    def found = now().filter(_.tags.exists(isTag(_, tag)))
    val start = System.nanoTime()
    def waits(all: Seq[QueryReport]) = (all.isEmpty || all.exists(_.state == "running")) &&
      System.nanoTime() - start < TimeUnit.MILLISECONDS.toNanos(if (all.isEmpty) BeginMillis else EndMillis)
    var queries = found
    while (waits(queries)) {
      Thread.sleep(PollMillis)
      queries = found
    }
    queries.map { q =>
      val (took, partOf) = (since(q, q.endedMillis), q.partOf.map(Long.box).orNull)
      val more = Seq(filterRows(q), scanRows(q), took, timeRows(q), partOf, q.processorMillis, q.entry.summary)
      Row.fromSeq(queryRow(q).toSeq ++ more)
    }
  }

  /** Milliseconds since the query's start; null if either time is unknown. */
  private def since(q: QueryReport, millis: Long): Any =
    if (q.startedMillis <= 0 || millis <= 0) null else math.max(0L, millis - q.startedMillis)

  private def timeRows(q: QueryReport): Seq[Row] =
    q.views.map { f =>
      Row(f.filterId.toString, since(q, f.times.registered), since(q, f.times.ready), since(q, f.times.used))
    }

  def filters: Seq[Row] = reports.flatMap(filterRows)

  private def filterRows(q: QueryReport): Seq[Row] =
    q.views.map(filterRow(q, _)) ++ q.synchronized(q.rejected.toVector).map { r =>
      val known = Seq(q.executionId, null, r.producer.toString, r.columns, "all", "disabled", r.reason.text)
      Row.fromSeq(known ++ Seq(0L, "true", 0L, 0L, null, r.reason.code, r.reason.advice))
    }

  private def filterRow(q: QueryReport, f: FilterView): Row =
    Row(
      q.executionId,
      f.filterId.toString,
      f.producer.toString,
      f.columns,
      f.filter.form,
      f.state.toString,
      f.reason.map(_.text).orNull,
      f.generation,
      f.filter.shown(showValues && !q.showValues.contains(false)),
      f.bytes,
      f.waitMillis,
      f.readyMillis.orNull,
      f.reason.map(_.code).orNull,
      f.reason.map(_.advice).orNull
    )

  def scans: Seq[Row] = reports.flatMap(scanRows)

  private def scanRows(q: QueryReport): Seq[Row] =
    q.synchronized(q.scans.toSeq).map { s =>
      val (r, cameToEnd) = (s.report(q.executionId), q.cameToEnd)
      import ScanCounter._
      val table = Seq(
        q.executionId,
        s.scanId,
        s.table.name,
        s.filterIds.map(_.toString),
        s.table.files,
        r.files.counts.pruned(s.table.files, cameToEnd)
      )
      val how = Seq(
        r(LateMaterialized),
        Map(
          "statistics" -> r(ByStatistics),
          "dictionary" -> r(ByDictionary),
          "bloom" -> r(ByBloom),
          "page index" -> r(ByPages),
          "rows" -> r(ByRows)
        ),
        r.reasons.toMap
      )
      val unopened = r.files.counts.unopened(s.table.files, cameToEnd)
      Row.fromSeq(table ++ totals(r) ++ how ++ Seq(unopened, r(BytesReadAgain), s.table.format))
    }

  /** The columns from row_groups_total to bytes_read. */
  private def totals(r: ScanReport): Seq[Long] = {
    import ScanCounter._
    Seq(r(RowGroups), r(RowGroupsPruned), r(Rows), r(Rows) - r(RowsOutput), r(RowsOutput), r(BytesTotal), r(BytesRead))
  }

  def executors: Seq[Row] = reports.flatMap { q =>
    q.synchronized(q.scans.toSeq).flatMap { s =>
      s.accumulator.byExecutor(q.executionId).map { r =>
        Row.fromSeq(Seq(q.executionId, s.scanId, r.executorId) ++ totals(r))
      }
    }
  }

  def counters: Seq[Row] = {
    val ofExecutors =
      executorsSay.map(_._2).collect { case (name, n) if name.startsWith(LiveCounts.Messages) => name -> n }
    val sums = ofExecutors.groupMapReduce(_._1)(_._2)(_ + _)
    ExchangeCounters.instance.all.flatMap { case (c, n) =>
      Seq(Row(c.toString, n)) ++ sums.get(LiveCounts.Messages + c).map(Row(LiveCounts.Messages + c, _))
    } ++ TestHooks.current.counters.map { case (name, n) => Row(name, n) }
  }

  private def executorsSay: Seq[(String, (String, Long))] =
    for {
      exchange <- DriverExchange.current.toSeq
      (executor, counts) <- exchange.live()
      count <- counts
    } yield executor -> count

  def live: Seq[Row] = {
    SparkAccess.awaitListeners(session.sparkContext, 5000)
    val exchange = DriverExchange.current
    val driver = (LiveCounts.ofProcess ++ LiveCounts.ofDriver(exchange)).map { case (n, v) => Row("driver", n, v) }
    driver ++ executorsSay.collect {
      case (executor, (name, n)) if !name.startsWith(LiveCounts.Messages) => Row(executor, name, n)
    }
  }

  def users: Seq[Row] = UserFilters.forSession(SparkAccess.sessionId(session)).map { f =>
    val g = f.current
    Row(
      f.name,
      f.typeText,
      g.number,
      g.filter.form,
      g.filter.shown(f.name, showValues),
      g.filter match {
        case ValueFilter.Members(_, keys) => keys.size
        case _ => null
      },
      g.sizeBytes,
      f.token
    )
  }

  def queries: Seq[Row] = reports.map(queryRow)

  def summaries: Seq[Row] = reports.map(q => Row(q.executionId, q.entry.summary, q.description))

  private def queryRow(q: QueryReport): Row = Row(q.executionId, q.description, q.tags, q.state, q.plan)

  def status: Seq[Row] = {
    val enabled = Settings.get(session.sessionState.conf, Settings.Enabled)
    Seq(
      Row(
        Version.current,
        Version.protocol,
        session.version,
        enabled,
        Driver.activation.fold("")(_.toString),
        Executions.instance.live
      )
    )
  }
}

private[lifecycle] object ReportReader {

  /** Longest wait for Spark's listeners. */
  private val EndMillis = 10000L

  /** Shorter wait for a query without a report: Spark runs nothing if it knows the answer from the plan. */
  private val BeginMillis = 500L
  private val PollMillis = 20L

  // Spark prefixes a tag with session, user and thread, and adds tags of its own.
  private val Decorated = "(?:.*-thread-[0-9a-f-]{36}-|SparkConnect_.*_Tag_)(.*)".r

  private def isTag(decorated: String, tag: String): Boolean = decorated == tag || (decorated match {
    case Decorated(own) => own == tag
    case _ => false
  })
}

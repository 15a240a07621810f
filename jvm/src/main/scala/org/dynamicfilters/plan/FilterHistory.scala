package org.dynamicfilters.plan

import java.util.{LinkedHashMap, Map => JMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.{FileSourceScanExec, SQLExecution, SparkPlan}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.{ScanCounter, ScanReport, ScanRun, Wait}
import org.dynamicfilters.state.{Cost, JoinRef, StepTracker, Tested}

/** Remembers whether join filters, and waiting for them, paid in earlier executions. [[JoinPlanner]] asks it before it makes a
  * filter, holds a scan back, or copies an exchange for one. A [[StepTracker]] decides for each filter, scan and step.
  *
  * For example, a fact table joined to a whole dimension has a match for each row, which no statistics show before the query
  * has run.
  *
  * Only executions with the same build side, scan and predicates count, over unchanged tables. A hint that asks for the filter
  * overrules the history. What was learned excludes no data (contract 9).
  */
private[plan] final class FilterHistory {
  import FilterHistory._

  // First by filter and column, which each planning asks for: the canonical form of a scan takes longer to compute.
  private val filters = new LinkedHashMap[(Int, String), mutable.HashMap[Use, Seen]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[(Int, String), mutable.HashMap[Use, Seen]]): Boolean =
      size > MostFilters
  }

  /** Whether a filter has a history in any scan. */
  def knows(filter: Int, column: String): Boolean = synchronized(filters.containsKey((filter, column)))

  /** Why a step is not taken.
    *
    * @param execution
    *   gets one answer, however often it is planned; null if unknown
    * @param tables
    *   the state of the tables (see [[TableContents]])
    */
  def whySkipped(execution: String, filter: Int, column: String, use: Use, tables: Seq[Any]): Option[Reason] =
    synchronized {
      for {
        uses <- Option(filters.get((filter, column)))
        seen <- uses.get(use) if seen.tables == tables && !seen.isTaken(execution)
      } yield seen.reason
    }

  /** Records an execution.
    *
    * @param execution
    *   counts once, even with several equal scans
    * @param tested
    *   rows that the filter tested, and rows that passed it
    * @param reason
    *   for reports, if the step is not taken next time
    */
  def record(
      execution: Long,
      filter: Int,
      column: String,
      use: Use,
      tables: Seq[Any],
      tested: Tested,
      giveUp: Double,
      reason: Reason
  ): Unit = synchronized {
    val uses = filters.computeIfAbsent((filter, column), _ => mutable.HashMap.empty[Use, Seen])
    val before = uses.get(use).filter(_.tables == tables)
    val seen = before.getOrElse(new Seen(tables, new StepTracker(giveUp)))
    seen.add(execution, tested, reason)
    uses(use) = seen
  }
}

object FilterHistory {
  private[plan] val Make = "make"
  private[plan] val Waits = "wait"

  /** A step for a filter in a scan.
    *
    * @param scan
    *   hash of its canonical form: a collision costs speed only
    */
  private[plan] final case class Use(step: String, scan: Int)

  private final class Seen(val tables: Seq[Any], tracker: StepTracker) {
    private var lastReason: Reason = _
    private var (added, asked) = (-1L, "")
    private var answer = true

    def reason: Reason = lastReason

    def add(execution: Long, tested: Tested, reason: Reason): Unit = if (execution != added) {
      added = execution
      lastReason = reason
      tracker.add(tested)
    }

    def isTaken(execution: String): Boolean = {
      if (execution == null || execution != asked) {
        asked = execution
        answer = tracker.isTaken()
      }
      answer
    }
  }

  private val MostFilters = 4096

  private val history = new FilterHistory

  /** Why a join's filter is not made for a scan, if so. */
  def whySkipped(ref: JoinRef, scan: SparkPlan, column: String): Option[Reason] =
    whySkipped(Make, ref, scan, column)

  /** Whether a scan was held back, or an exchange copied, for a filter that most rows passed. Without it, a scan of TPC-DS q65
    * waited half a second each time for six stores that all sales are of.
    */
  def waitedInVain(ref: JoinRef, scan: SparkPlan, column: String): Boolean =
    whySkipped(Waits, ref, scan, column).isDefined

  private def whySkipped(step: String, ref: JoinRef, scan: SparkPlan, column: String): Option[Reason] =
    if (!history.knows(hash(ref), column)) None
    else
      for {
        s <- plain(scan)
        t <- tables(ref, s)
        execution = s.session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)
        reason <- history.whySkipped(execution, hash(ref), column, Use(step, s.canonicalized.hashCode), t)
      } yield reason

  /** Records what the filters of a scan did in a successful execution. [[org.dynamicfilters.lifecycle.QueryListener]] calls it
    * at the end.
    */
  def record(scan: DynamicFilterScanExec, run: ScanRun, execution: Long): Unit = {
    val giveUp = scan.spec.giveUpSelectivity
    // Lazy: merging the executors' reports takes time, and scans without join filters do not need it.
    lazy val report = run.report(execution)
    lazy val sawAllSplits = run.sawAllSplits(report) && report(ScanCounter.Fallbacks) == 0
    lazy val plainScan = plain(scan)
    scan.spec.columns.zipWithIndex.foreach { case (c, i) =>
      c.ref match {
        case j: JoinRef =>
          val (tested, passed) = (report.effects.rowsTested(i), report.effects.rowsPassed(i))
          // A useful filter without a history needs no entry.
          def keep(step: String, rows: Long, passed: Long, reason: Reason): Unit =
            if (giveUp < 1 && (passed > rows * giveUp || history.knows(hash(j), c.name)))
              for (s <- plainScan; t <- tables(j, s)) {
                val use = Use(step, s.canonicalized.hashCode)
                history.record(execution, hash(j), c.name, use, t, Tested(rows, passed, Cost.none), giveUp, reason)
              }
          if (c.place.waits != Wait.No) keep(Waits, tested, if (leftOutUnread(report)) 0 else passed, Reasons.AllPassed)
          val output = report(ScanCounter.RowsOutput)
          val effects = report.effects
          val isKnown = effects.isEvaluated(i) && (effects.isSelective(i) || (sawAllSplits && !effects.isSkipped(i)))
          // A disabled test still tests some rows.
          def testsDoNotPay = sawAllSplits && !leftOutUnread(report) && tested < output * (1 - giveUp)
          // A late filter may have tested few rows because it was late. Few rows cost nothing to test.
          val isMeasured = output >= Estimates.ManyRows && run.fromStart(j.id)
          def made(reason: Option[Reason]): Unit = {
            val rows = math.max(output, StepTracker.FewRows)
            keep(Make, rows, if (reason.isDefined) rows else 0, reason.getOrElse(Reasons.AllPassed))
          }
          if (isKnown && !effects.isSelective(i)) made(Some(Reasons.AllPassed))
          else if (isMeasured || isKnown) made(Option.when(isMeasured && testsDoNotPay)(Reasons.TestsCostMore))
        case _ =>
      }
    }
  }

  /** Whether any filter excluded row groups or pages. Splits without a row group do not count. */
  private def leftOutUnread(report: ScanReport): Boolean =
    report.files.unknown.nonEmpty || report(ScanCounter.RowsSkippedByPages) > 0 ||
      report(ScanCounter.RowGroupsPruned) > report(ScanCounter.ByRows)

  private def plain(scan: SparkPlan): Option[FileSourceScanExec] = scan match {
    case s: FileSourceScanExec => Some(s)
    case d: DynamicFilterScanExec => Some(ScanPlanner.unfiltered(d)).collect { case s: FileSourceScanExec => s }
    case _ => None
  }

  private def hash(ref: JoinRef): Int = (ref.hash, ref.facts.sideHash).hashCode

  private def tables(ref: JoinRef, scan: FileSourceScanExec): Option[Seq[Any]] =
    for (own <- TableContents.state(scan); build <- ref.facts.tables) yield own ++ build
}

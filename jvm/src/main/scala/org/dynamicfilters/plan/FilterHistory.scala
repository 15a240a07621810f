package org.dynamicfilters.plan

import java.util.{LinkedHashMap, Map => JMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.{FileSourceScanExec, SQLExecution, SparkPlan}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.scan.{ScanCounter, ScanReport, ScanRun, Wait}
import org.dynamicfilters.state.{Cost, JoinRef, StepTracker, Tested}

/** What making filters of joins, and waiting for them, was good for in earlier executions. The planner asks it before it makes
  * a filter, holds a scan back, or copies an exchange for one; a [[StepTracker]] decides for each filter, scan and step.
  *
  * A fact table joined to a whole dimension has a match for each of its keys. No planner can know that, but everybody who has
  * run the query. If a fifth of a fact table's rows pass, in no order, tests of rows may take more than they save. What is left
  * of such a filter is planning, the collection of keys and a test now and then: 3 % of TPC-DS q43.
  *
  * Only executions with the same build side, scan and predicates count, over tables that have not changed since. A hint that
  * asks for the filter overrules it. What was learned excludes no data (contract 9): a filter that is not made costs a query
  * what the filter could have saved.
  */
private[plan] final class FilterHistory {
  import FilterHistory._

  // By filter and column, because each planning asks for each filter: the form of a scan takes longer to make.
  private val filters = new LinkedHashMap[(Int, String), mutable.HashMap[Use, Seen]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[(Int, String), mutable.HashMap[Use, Seen]]): Boolean =
      size > MostFilters
  }

  /** Whether anything is known of a filter in any scan. */
  def knows(filter: Int, column: String): Boolean = synchronized(filters.containsKey((filter, column)))

  /** Why a step is not taken.
    *
    * @param execution
    *   has one answer, however often its plan is made anew; null if it is not known
    * @param tables
    *   what is known of the tables' files, without a look at them: it changes when they do
    */
  def why(execution: String, filter: Int, column: String, use: Use, tables: Seq[Any]): Option[String] = synchronized {
    for {
      uses <- Option(filters.get((filter, column)))
      seen <- uses.get(use) if seen.tables == tables && !seen.isTaken(execution)
    } yield seen.reason
  }

  /** Records an execution.
    *
    * @param execution
    *   counts once, however many of its scans are alike
    * @param tested
    *   rows that the filter decided about, and rows that passed it
    * @param reason
    *   given if the step is not taken again
    */
  def saw(
      execution: Long,
      filter: Int,
      column: String,
      use: Use,
      tables: Seq[Any],
      tested: Tested,
      giveUp: Double,
      reason: String = ""
  ): Unit = synchronized {
    val uses = filters.computeIfAbsent((filter, column), _ => mutable.HashMap.empty[Use, Seen])
    val before = uses.get(use).filter(_.tables == tables)
    val seen = before.getOrElse(new Seen(tables, new StepTracker(giveUp)))
    seen.add(execution, tested, reason)
    uses(use) = seen
  }
}

object FilterHistory {

  /** In reports, why a filter is not made. */
  val AllPassed = "all rows passed it when the query ran before"
  val DoesNotPay = "to test rows by it took more than it saved when the query ran before"

  private[plan] val Make = "make"
  private[plan] val Waits = "wait"

  /** A step for a filter in a scan.
    *
    * @param scan
    *   hash of its canonical form: that two are taken for one costs speed only
    */
  private[plan] final case class Use(step: String, scan: Int)

  private final class Seen(val tables: Seq[Any], tracker: StepTracker) {
    private var lastReason = ""
    private var (added, asked) = (-1L, "")
    private var answer = true

    def reason: String = lastReason

    def add(execution: Long, tested: Tested, reason: String): Unit = if (execution != added) {
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

  /** Why the filter of a join is not worth making for a scan, if it is not. */
  def why(ref: JoinRef, scan: SparkPlan, column: String): Option[String] =
    why(Make, ref, scan, column)

  /** Whether a scan was held back for the filter of a join, or an exchange copied, and most rows passed the filter. Of TPC-DS
    * q65, a scan of `store_sales` was held back half a second for six stores that all sales are of.
    */
  def isNotWorthWaiting(ref: JoinRef, scan: SparkPlan, column: String): Boolean =
    why(Waits, ref, scan, column).isDefined

  private def why(step: String, ref: JoinRef, scan: SparkPlan, column: String): Option[String] =
    if (!history.knows(hash(ref), column)) None
    else
      for {
        s <- plain(scan)
        t <- tables(ref, s)
        execution = s.session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)
        reason <- history.why(execution, hash(ref), column, Use(step, s.canonicalized.hashCode), t)
      } yield reason

  /** Records what the filters of a scan did in an execution that went well. */
  def ended(scan: DynamicFilterScanExec, run: ScanRun, execution: Long): Unit = {
    val giveUp = scan.spec.giveUpSelectivity
    // Merged from all executors' reports, and most scans of TopKs have no filter of a join.
    lazy val report = run.report(execution)
    // Of what it did not come to, nothing is known.
    lazy val cameToEnd = run.sawAllSplits(report) && report(ScanCounter.Fallbacks) == 0
    val inTuples = scan.spec.tuples.flatMap(_.parts.map(_.name)).toSet
    lazy val plainScan = plain(scan)
    scan.spec.columns.zipWithIndex.foreach { case (c, i) =>
      c.ref match {
        case j: JoinRef =>
          val (tested, passed) = (report.rowsTested(i), report.rowsPassed(i))
          // A filter of which nothing is known needs no entry for having been of use.
          def keep(step: String, rows: Long, passed: Long, reason: String): Unit =
            if (giveUp < 1 && (passed > rows * giveUp || history.knows(hash(j), c.name)))
              for (s <- plainScan; t <- tables(j, s)) {
                val use = Use(step, s.canonicalized.hashCode)
                history.saw(execution, hash(j), c.name, use, t, Tested(rows, passed, Cost.none), giveUp, reason)
              }
          if (c.place.waits != Wait.No) keep(Waits, tested, if (leftOutUnread(report)) 0 else passed, "")
          if (!inTuples(c.name)) {
            val output = report(ScanCounter.RowsOutput)
            val isKnown = report.isEvaluated(i) && (report.isSelective(i) || (cameToEnd && !report.isSkipped(i)))
            // Disabled tests are tried now and then.
            def testsDoNotPay = cameToEnd && !leftOutUnread(report) && tested < output * (1 - giveUp)
            // One that came late may have tested few rows for that. Of few rows all are tested, which costs nothing.
            val isMeasured = output >= Estimates.ManyRows && run.fromStart(j.id)
            def made(reason: Option[String]): Unit = {
              val rows = math.max(output, StepTracker.FewRows)
              keep(Make, rows, if (reason.isDefined) rows else 0, reason.getOrElse(""))
            }
            if (isKnown && !report.isSelective(i)) made(Some(AllPassed))
            else if (isMeasured || isKnown) made(Option.when(isMeasured && testsDoNotPay)(DoesNotPay))
          }
        case _ =>
      }
    }
  }

  /** Whether row groups or pages were left out, by whatever filter. Splits in which no row group begins do not count. */
  private def leftOutUnread(report: ScanReport): Boolean =
    report.unknown.nonEmpty || report(ScanCounter.RowsSkippedByPages) > 0 ||
      report(ScanCounter.RowGroupsPruned) > report(ScanCounter.ByRows)

  private def plain(scan: SparkPlan): Option[FileSourceScanExec] = scan match {
    case s: FileSourceScanExec => Some(s)
    case d: DynamicFilterScanExec => Some(ScanPlanner.unfiltered(d)).collect { case s: FileSourceScanExec => s }
    case _ => None
  }

  private def hash(ref: JoinRef): Int = (ref.hash, ref.facts.sideHash).hashCode

  private def tables(ref: JoinRef, scan: FileSourceScanExec): Option[Seq[Any]] =
    for (own <- TableContents.of(scan); build <- ref.facts.tables) yield own ++ build
}

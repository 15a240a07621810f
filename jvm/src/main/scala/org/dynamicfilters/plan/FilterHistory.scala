package org.dynamicfilters.plan

import java.util.{LinkedHashMap, Map => JMap}

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.{ScanCounter, ScanReport, ScanRun}
import org.dynamicfilters.state.{JoinRef, StepTracker}

/** Remembers join filters that most rows passed in earlier executions. [[JoinPlanner]] asks it before it makes a filter.
  *
  * For example, a fact table joined to a whole dimension has a match for each row, which no statistics show before the query
  * has run. Without it, a scan of TPC-DS q65 waited half a second each time for six stores that all sales are of.
  *
  * Only executions with the same build side, scan and predicates count, over unchanged tables. So a filter that was of no use is
  * not made again before a table changes. A hint that asks for the filter overrules the history. What was learned excludes no
  * data (contract 9).
  */
private[plan] final class FilterHistory {
  import FilterHistory._

  private val history = new LinkedHashMap[Use, Seen](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Use, Seen]): Boolean = size > MostUses
  }

  /** Whether the last executions showed that the filter is of no use.
    *
    * @param tables
    *   the state of the tables (see [[TableContents]])
    */
  def isUseless(use: Use, tables: Seq[Any]): Boolean =
    seen(use, tables).exists(_.inVain >= Misses)

  private def seen(use: Use, tables: Seq[Any]): Option[Seen] =
    synchronized(Option(history.get(use)).filter(_.tables == tables))

  /** Records an execution. It counts once, even with several equal scans. */
  def record(execution: Long, use: Use, tables: Seq[Any], wasOfUse: Boolean): Unit = synchronized {
    val before = seen(use, tables)
    if (wasOfUse) history.remove(use)
    else if (!before.exists(_.execution == execution))
      history.put(use, Seen(tables, execution, before.fold(1)(_.inVain + 1)))
  }
}

object FilterHistory {

  /** A filter on a column of a scan: by hashes, because a collision costs speed only. */
  private[plan] final case class Use(filter: Int, column: String, scan: Int)

  /** The newest execution, and the number of executions in a row in which the filter was of no use. */
  private final case class Seen(tables: Seq[Any], execution: Long, inVain: Int)

  private val Misses = 2
  private val MostUses = 4096

  private val history = new FilterHistory

  /** Why a join's filter is not made for a scan, if so. */
  def whyUseless(ref: JoinRef, scan: SparkPlan, column: String): Option[Reason] =
    for {
      s <- plain(scan)
      t <- tables(ref, s)
      if history.isUseless(use(ref, s, column), t)
    } yield Reasons.MostPassed

  /** Records what the filters of a scan did in a successful execution. [[org.dynamicfilters.lifecycle.QueryListener]] calls it
    * at the end.
    */
  def record(scan: DynamicFilterScanExec, run: ScanRun, execution: Long): Unit = {
    val giveUp = scan.spec.giveUpSelectivity
    // Lazy: merging the executors' reports takes time, and scans without join filters do not need it.
    lazy val report = run.report(execution)
    lazy val plainScan = plain(scan)
    if (giveUp < 1) scan.spec.columns.zipWithIndex.foreach { case (c, i) =>
      c.ref match {
        case j: JoinRef =>
          for {
            isOfUse <- wasOfUse(i, report, run.sawAllSplits(report), run.fromStart(j.id), giveUp)
            s <- plainScan
            t <- tables(j, s)
          } history.record(execution, use(j, s, c.name), t, isOfUse)
        case _ =>
      }
    }
  }

  /** Whether a scan's i-th filter was of use; None if the execution does not tell.
    *
    * @param sawAll
    *   whether the scan reached all of its splits: a LIMIT may leave those that the filter would exclude
    * @param fromStart
    *   whether the filter was complete when the scan started: a late one has not seen all rows
    */
  private def wasOfUse(
      i: Int,
      report: ScanReport,
      sawAll: Boolean,
      fromStart: Boolean,
      giveUp: Double
  ): Option[Boolean] = {
    val effects = report.effects
    val tested = effects.rowsTested(i)
    val sawEverything = sawAll && report(ScanCounter.Fallbacks) == 0
    if (sawEverything && effects.isEvaluated(i) && !effects.isSkipped(i) && !effects.isSelective(i)) Some(false)
    // Another filter may have excluded what this one would have.
    else if (leftOutUnread(report)) Option.when(effects.isSelective(i))(true)
    else
      Option.when(sawEverything && fromStart && tested >= StepTracker.FewRows)(
        effects.rowsPassed(i) <= tested * giveUp
      )
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

  private def use(ref: JoinRef, scan: FileSourceScanExec, column: String): Use =
    Use((ref.hash, ref.facts.sideHash).hashCode, column, scan.canonicalized.hashCode)

  private def tables(ref: JoinRef, scan: FileSourceScanExec): Option[Seq[Any]] =
    for (own <- TableContents.state(scan); build <- ref.facts.tables) yield own ++ build
}

package org.dynamicfilters.plan

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.scan.{ScanCounter, ScanReport, ScanRun, Wait}
import org.dynamicfilters.state.JoinRef

/** Which filters of joins left out nothing of a scan when they were made before, or only rows whose test costs more than it saves:
  * they are not made again for a while. And those for which a scan was held back in vain: it is not held back for them again.
  *
  * A fact table joined to a whole dimension has a match for each of its keys, which no planner can know, but everybody who has
  * run the query. Only what statistics said of every row group counts, those included that the query did not come to read for
  * other reasons, and only of the same build side, scan and predicates, over tables that have not changed since. A hint
  * that asks for the filter overrules it.
  *
  * Where a fifth of a fact table's rows pass, in no order, it is measured whether a test of rows pays (`TestAdvisor` and others).
  * If it does not, what is left of the filter is planning, the collection of keys and a test now and then: 3 % of TPC-DS q43.
  *
  * What was learned excludes no data here (contract 9): a filter that is not made costs a query what it could have saved.
  *
  * @param nanos
  *   the time
  */
private[plan] final class UselessFilters(nanos: () => Long = () => System.nanoTime()) {
  import UselessFilters._

  private val seen = new LinkedHashMap[Use, Seen](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Use, Seen]): Boolean = size > MostUses && {
      count(eldest.getKey, -1)
      true
    }
  }
  // Uses by filter and column: each planning asks for each filter.
  private val known = mutable.HashMap.empty[(Int, String), Int]

  private def count(use: Use, more: Int): Unit = known.updateWith((use.filter, use.column)) { before =>
    Some(before.getOrElse(0) + more).filter(_ > 0)
  }

  /** @param tables
    *   what is known of the tables' files, without a look at them: it changes when they do
    */
  def isUseless(use: Use, tables: Seq[Any], times: Int = EnoughTimes): Boolean = synchronized {
    Option(seen.get(use)).exists(s => s.times >= times && isValid(s, tables))
  }

  /** @param execution
    *   counts once, however many of its scans are alike
    * @param useless
    *   whether all rows of all row groups were known to pass
    */
  def saw(execution: Long, use: Use, tables: Seq[Any], useless: Boolean): Unit = synchronized {
    if (!useless) { if (seen.remove(use) != null) count(use, -1) }
    else {
      val before = Option(seen.get(use)).filter(isValid(_, tables))
      val times = before.fold(1)(s => if (s.execution == execution) s.times else s.times + 1)
      if (seen.put(use, Seen(tables, times, nanos(), execution)) == null) count(use, 1)
    }
  }

  private def isValid(s: Seen, tables: Seq[Any]): Boolean = nanos() - s.at < KeptNanos && s.tables == tables

  /** Whether anything is known of the filter in whatever scan: cheaper to tell than the form of one scan. */
  def knows(filter: => Int, column: String): Boolean = synchronized {
    known.nonEmpty && known.contains((filter, column))
  }
}

object UselessFilters {

  /** In reports, why a filter is not made. */
  val AllPassed = "all rows passed it when the query ran before"
  val DoesNotPay = "to test rows by it took more than it saved when the query ran before"

  /** A filter in a scan. Hashes of canonical forms: that two are taken for one costs speed only.
    *
    * @param crossed
    *   whether it is below an exchange, where what a test of rows is good for counts: a row that is dropped is not shuffled
    */
  private[plan] final case class Use(filter: Int, scan: Int, column: String, crossed: Boolean = false)
  private final case class Seen(tables: Seq[Any], times: Int, at: Long, execution: Long)

  /** Once may be chance, as of a filter that came late; and who tries a query out should see what filters it has. */
  private[plan] val EnoughTimes = 3

  /** Fewer say nothing. */
  private val FewRows = 1000L

  /** That pass a filter for which waiting was in vain: a wait costs about what half of the rows do. */
  private val MostRows = 0.8
  private val KeptNanos = TimeUnit.MINUTES.toNanos(10)
  private val MostUses = 4096

  /** Of the rows that a scan puts out, those that were tested by a filter that does not pay: it is tried now and then. */
  private val MostTested = 0.25

  /** That pass a filter below an exchange which does not pay: to shuffle the others would cost more than a test. */
  private val ManyPassed = 0.6

  /** Of fewer rows all are tested, which costs nothing. */
  private val ManyRows = 100000L

  private val passing, unpaid, waits = new UselessFilters

  /** Why the filter of a join is not worth making for a scan, if it is not. */
  def why(ref: JoinRef, scan: SparkPlan, column: String, crossed: Boolean): Option[String] =
    if (isKnown(passing, ref, scan, column)) Some(AllPassed)
    else Option.when(isKnown(unpaid, ref, scan, column, crossed = crossed))(DoesNotPay)

  /** Whether a scan was held back for the filter of a join in vain when the query ran before: most rows passed it. Then it comes
    * when it comes. Of TPC-DS q65, a scan of `store_sales` was held back half a second for six stores that all sales are of.
    */
  def isNotWorthWaiting(ref: JoinRef, scan: SparkPlan, column: String): Boolean = isKnown(waits, ref, scan, column)

  /** Whether most rows passed it in a scan for which an exchange was computed once more (see [[ExchangeCopies]]). Once is enough:
    * the planner was wrong then.
    */
  def isNotWorthACopy(ref: JoinRef, scan: SparkPlan, column: String): Boolean =
    isKnown(waits, ref, scan, column, times = 1)

  private def isKnown(
      of: UselessFilters,
      ref: JoinRef,
      scan: SparkPlan,
      column: String,
      times: Int = EnoughTimes,
      crossed: Boolean = false
  ): Boolean =
    of.knows(hash(ref), column) &&
      (for (s <- plain(scan); t <- tables(ref, s)) yield of.isUseless(useOf(ref, s, column, crossed), t, times))
        .contains(true)

  /** A scan has come to its end in an execution that went well. */
  def ended(scan: DynamicFilterScanExec, run: ScanRun, execution: Long): Unit = {
    // Merged from all executors' reports, and most scans of TopKs have no filter of a join.
    lazy val report = run.report(execution)
    // Of what it did not come to, nothing is known.
    lazy val cameToEnd = run.sawAllSplits(report) && report(ScanCounter.Fallbacks) == 0
    def isKnown(i: Int) = report.isJudged(i) && (report.isDecisive(i) || (cameToEnd && !report.isOverlooked(i)))
    val inTuples = scan.spec.tuples.flatMap(_.parts.map(_.name)).toSet
    lazy val plainScan = plain(scan)
    def keep(in: UselessFilters, ref: JoinRef, column: String, useless: Boolean, crossed: Boolean = false): Unit =
      if (useless || in.knows(hash(ref), column))
        for (s <- plainScan; t <- tables(ref, s)) in.saw(execution, useOf(ref, s, column, crossed), t, useless)
    scan.spec.columns.zipWithIndex.foreach { case (c, i) =>
      c.ref match {
        case j: JoinRef =>
          val (tested, passed) = (report.rowsTested(i), report.rowsPassed(i))
          if (!inTuples(c.name) && isKnown(i)) keep(passing, j, c.name, !report.isDecisive(i))
          if (c.place.waits != Wait.No && tested >= FewRows)
            keep(waits, j, c.name, !leftOutUnread(report) && passed > tested * MostRows)
          // One that came late may have tested few rows for that.
          if (!inTuples(c.name) && report(ScanCounter.RowsOutput) >= ManyRows && run.fromStart(j.id)) {
            val few = tested < report(ScanCounter.RowsOutput) * MostTested
            // Below an exchange tests are given up by wall time too, which tells little while other processes run.
            val crossed = c.place.crossesExchange
            val leavesMany = !crossed || passed >= tested * ManyPassed
            keep(unpaid, j, c.name, few && leavesMany && cameToEnd && !leftOutUnread(report), crossed)
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

  private def useOf(ref: JoinRef, scan: FileSourceScanExec, column: String, crossed: Boolean): Use =
    Use(hash(ref), scan.canonicalized.hashCode, column, crossed)

  private def hash(ref: JoinRef): Int = (ref.hash, ref.facts.sideHash).hashCode

  private def tables(ref: JoinRef, scan: FileSourceScanExec): Option[Seq[Any]] =
    for (own <- TableContents.of(scan); build <- ref.facts.tables) yield own ++ build
}

package org.dynamicfilters.plan

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.TimeUnit

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.scan.ScanReport
import org.dynamicfilters.state.JoinRef

/** Which filters of joins left out nothing of a scan when they were made before: they are not made again for a while.
  *
  * A fact table joined to a whole dimension has a match for each of its keys, which no planner can know, but everybody who has
  * run the query. Only what statistics said of every row group counts, and only of the same build side, scan and predicates,
  * over tables of the same size. A hint that asks for the filter overrules it.
  *
  * What was learned excludes no data here (contract 9): a filter that is not made costs a query what it could have saved.
  *
  * @param nanos
  *   the time
  */
private[plan] final class UselessFilters(nanos: () => Long = () => System.nanoTime()) {
  import UselessFilters._

  private val seen = new LinkedHashMap[Use, Seen](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Use, Seen]): Boolean = size > MostUses
  }

  /** @param bytes
    *   of the tables, as they are listed now
    */
  def isUseless(use: Use, bytes: => Long): Boolean = synchronized {
    Option(seen.get(use)).exists { s =>
      s.times >= EnoughTimes && nanos() - s.at < KeptNanos && s.bytes == bytes
    }
  }

  /** @param execution
    *   counts once, however many of its scans are alike
    * @param useless
    *   whether all rows of all row groups that the scan came to were known to pass
    */
  def saw(execution: Long, use: Use, bytes: => Long, useless: Boolean): Unit = synchronized {
    if (!useless) seen.remove(use)
    else {
      val now = bytes
      val before = Option(seen.get(use)).filter(s => s.bytes == now && nanos() - s.at < KeptNanos)
      val times = before.fold(1)(s => if (s.execution == execution) s.times else s.times + 1)
      seen.put(use, Seen(now, times, nanos(), execution))
    }
  }

  def isEmpty: Boolean = synchronized(seen.isEmpty)
}

object UselessFilters {

  /** In reports. */
  val Reason = "all rows passed it when the query ran before"

  /** A filter in a scan. Hashes of canonical forms: that two are taken for one costs speed only. */
  private[plan] final case class Use(filter: Int, scan: Int, column: String)
  private final case class Seen(bytes: Long, times: Int, at: Long, execution: Long)

  /** Once may be chance, as of a filter that came late. */
  private val EnoughTimes = 2
  private val KeptNanos = TimeUnit.MINUTES.toNanos(10)
  private val MostUses = 4096

  private val instance = new UselessFilters

  /** Whether the filter of a join is not worth making for a scan. */
  def has(ref: JoinRef, scan: SparkPlan, column: String): Boolean =
    !instance.isEmpty && plain(scan).exists(s => instance.isUseless(useOf(ref, s, column), bytes(ref, s)))

  /** A scan has come to its end in an execution that went well. */
  def ended(scan: DynamicFilterScanExec, report: ScanReport): Unit = {
    val inTuples = scan.spec.tuples.flatMap(_.parts.map(_.name)).toSet
    lazy val plainScan = plain(scan)
    scan.spec.columns.zipWithIndex.foreach { case (c, i) =>
      c.ref match {
        case j: JoinRef if report.isJudged(i) && !inTuples(c.name) =>
          val useless = !report.isDecisive(i)
          if (useless || !instance.isEmpty)
            plainScan.foreach(s => instance.saw(report.executionId, useOf(j, s, c.name), bytes(j, s), useless))
        case _ =>
      }
    }
  }

  private def plain(scan: SparkPlan): Option[FileSourceScanExec] = scan match {
    case s: FileSourceScanExec => Some(s)
    case d: DynamicFilterScanExec => Some(ScanPlanner.unfiltered(d)).collect { case s: FileSourceScanExec => s }
    case _ => None
  }

  private def useOf(ref: JoinRef, scan: FileSourceScanExec, column: String): Use =
    Use(ref.hash, scan.canonicalized.hashCode, column)

  private def bytes(ref: JoinRef, scan: FileSourceScanExec): Long =
    (scan +: ref.build.collectLeaves()).collect { case f: FileSourceScanExec => f.relation.location.sizeInBytes }.sum
}

package org.dynamicfilters.scan

import scala.collection.mutable

import org.dynamicfilters.scan.statistics.LearnedSplit
import org.dynamicfilters.state.ExecutionAccumulator

/** Carries [[ScanReport]]s to the driver.
  *
  * @param sink receives learned statistics on the driver at once, so that the next query can use them. Must return
  *   quickly: merging happens on the scheduler's thread
  */
final class ScanAccumulator(@transient private val sink: LearnedSplit => Unit)
    extends ExecutionAccumulator[ScanReport] {
  // By ended execution, the numbers of its files.
  @transient private lazy val ended = mutable.HashMap.empty[Long, FileCounts]

  override protected def keyOf(r: ScanReport): (Long, String) = (r.executionId, r.executorId)
  override protected def merged(before: Option[ScanReport], r: ScanReport): ScanReport = {
    if (sink != null) {
      r.learned.foreach(sink)
      r.learned.clear()
    }
    val all = before.getOrElse(new ScanReport(r.executionId, r.executorId))
    all.merge(r)
    all
  }
  override protected def fresh: ScanAccumulator = new ScanAccumulator(null)

  /** The sum of an execution's reports. */
  def report(executionId: Long): ScanReport = synchronized {
    val all = sum(executionId, "", reports(executionId))
    ended.get(executionId).foreach(counts => all.files.drop(Some(counts)))
    all
  }

  /** The reports of an execution by executor. */
  def byExecutor(executionId: Long): Seq[ScanReport] = synchronized {
    reports(executionId).sortBy(_.executorId).map(r => sum(executionId, r.executorId, Seq(r)))
  }

  private def reports(executionId: Long): Seq[ScanReport] =
    kept.valuesIterator.filter(_.executionId == executionId).toSeq

  private def sum(executionId: Long, executorId: String, of: Seq[ScanReport]): ScanReport = {
    val all = new ScanReport(executionId, executorId)
    of.foreach(all.merge)
    all
  }

  /** Called when an execution has ended. Keeps only the numbers of its files: the hashes of a hundred reports with ten
    * thousand files each took 70 MB.
    */
  def endedExecution(executionId: Long): Unit = synchronized {
    ended(executionId) = report(executionId).files.counts
    ended.filterInPlace((id, _) => kept.keysIterator.exists(_._1 == id))
    reports(executionId).foreach(_.files.drop(None))
    // Bounds memory: each report of an executor takes about a kilobyte.
    together(executionId, ScanReport.MostExecutors)(sum(executionId, "others", _))
  }
}

/** The table of a scan in reports.
  *
  * @param format name of its format in lower case: `parquet`, `delta`, `iceberg`, `jdbc`
  * @param files number of files that the scan would read without filters; 0 if unknown
  */
final case class ScannedTable(name: String, format: String, files: Long = 0)

/** One scan in all executions of one plan, as reports show it.
  *
  * @param recount counts the unopened files of an ended execution. Dropped after that, because it holds the plan
  */
final class ScanRun(
    val scanId: Long,
    val table: ScannedTable,
    val filterIds: Seq[Long],
    val accumulator: ScanAccumulator,
    @volatile private var recount: Option[Long => Unit] = None
) {
  def countUnopened(executionId: Long): Unit = recount.foreach(_(executionId))

  /** The plan runs again. */
  def countUnopenedBy(f: Long => Unit): Unit = recount = Some(f)
  def ended(executionId: Long): Unit = {
    recount = None
    accumulator.endedExecution(executionId)
  }

  /** The counters of an execution so far. */
  def report(executionId: Long): ScanReport = accumulator.report(executionId)
}

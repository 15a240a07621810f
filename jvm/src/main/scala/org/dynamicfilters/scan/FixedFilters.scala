package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.exchange.{SnapshotUnavailable, TaskSnapshots}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state._

/** The filters of joins and users of a scan below an exchange in one task, by the rule of [[Snapshots]].
  *
  * @param tests by filter, the tracker of row tests in this process; may be empty if `snapshots` never gives up
  */
private[scan] final class FixedFilters(
    columns: IndexedSeq[FilteredColumn],
    sent: SentFilters,
    snapshots: ScanSnapshots,
    tests: => IndexedSeq[StepTracker],
    context: TaskContext
) {
  private var partition = -1
  private var snapshot: IndexedSeq[SnapshotFilter] = _
  // Whether the driver may not know the snapshot of this attempt.
  private var isUntold = false
  private var filters: IndexedSeq[ValueFilter] = _
  private var tested: IndexedSeq[Boolean] = _
  private var (rows, passed) = (new Array[Long](columns.size), new Array[Long](columns.size))

  /** The task starts with a partition of the scan. */
  def startPartition(next: Int): Unit = {
    finish()
    partition = next
  }

  // Fixes the snapshot as late as the rule allows.
  private def fix(): Unit = if (snapshot == null)
    try {
      val asks = snapshots.change || (snapshots.givesUp && hasToAsk)
      val answer = if (asks) TaskSnapshots.ask(context, snapshots.table, partition) else None
      isUntold = answer.isEmpty && (asks || snapshots.givesUp)
      val now = answer.getOrElse(snapshots.table.first)
      filters = columns.indices.map(i => filter(now(i), i))
      tested = now.map {
        case SnapshotFilter.Travelled(isTested) => isTested
        case v: SnapshotFilter.Values => v.tested
        case _ => true
      }
      snapshot = now
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }

  /** Whether to ask although all filters travelled with the task: the driver may have disabled tests by one of them. */
  private def hasToAsk = tests.exists(_.isDisabled) || !TaskSnapshots.isFirst(context, snapshots.table)

  private def filter(of: SnapshotFilter, i: Int): ValueFilter = {
    val found = of match {
      case _: SnapshotFilter.Travelled => sent.travelled(context, i)
      case v: SnapshotFilter.Values => Some(v.filter)
      case _ => None
    }
    found.map(columns(i).converted).getOrElse(unknown(columns(i)))
  }

  private def unknown(column: FilteredColumn): ValueFilter = column.ref match {
    // The first generation travels with the scan.
    case u: UserRef => u.generation.filterFor(column.domain)
    case j: JoinRef =>
      // Subscribes to the filter. The driver then sends its contents before a later partition asks for them.
      TaskFilters.late(context, j.id)
      ValueFilter.All
    case _ => ValueFilter.All
  }

  /** A filter by its position among the scan's. */
  def apply(i: Int): ValueFilter = { fix(); filters(i) }

  /** Whether rows are tested by it. */
  def isTested(i: Int): Boolean = { fix(); tested(i) }

  /** Records a test of rows by the filter. */
  def saw(i: Int, before: Long, after: Long): Unit = {
    rows(i) += before
    passed(i) += after
  }

  /** The partition has been read: reports its snapshot, if the driver may not know it, and the tests of rows. */
  def finish(): Unit = Option(snapshot).foreach { now =>
    val used = Option.when(isUntold)(now)
    // Reported once for the partition: the driver decides, and sees it only with the task's result. Costs do not count: a dropped
    // row is not shuffled, and times tell little while other processes run.
    val did = rows.indices.map(i => StepResult(rows(i), passed(i), Cost.none))
    if (snapshots.givesUp) did.zip(tests).foreach { case (t, tracker) => if (t.rows > 0) tracker.add(t) }
    if (isUntold || rows.exists(_ > 0)) snapshots.uses.add(SnapshotUse(partition, used, did))
    rows = new Array[Long](columns.size)
    passed = new Array[Long](columns.size)
    snapshot = null
  }

  /** Whether tests of rows by some filter are disabled. */
  def gaveUp: Boolean = tested != null && tested.contains(false)
}

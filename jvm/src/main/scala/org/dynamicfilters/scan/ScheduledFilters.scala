package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.exchange.{SnapshotUnavailable, TaskSnapshots}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state._

/** The filters of joins and users of a scan in one task, by the rule of [[Snapshots]].
  *
  * @param tests by filter, the tracker of row tests in this process; may be empty if `snapshots` never gives up
  */
private[scan] final class ScheduledFilters(
    columns: IndexedSeq[FilteredColumn],
    sent: SentFilters,
    snapshots: ScanSnapshots,
    tests: => IndexedSeq[StepTracker],
    context: TaskContext
) {
  private var partition = -1
  private var schedule: Vector[ScheduleEntry] = _
  // Whether the driver may not know the schedule of this attempt.
  private var isUntold = false
  private var at = ReadPlace.start
  // The current entry of the schedule, and its filters.
  private var entry = -1
  private var filters: Array[ValueFilter] = _
  private var tested: Array[Boolean] = _
  private var (rows, passed) = (new Array[Long](columns.size), new Array[Long](columns.size))
  private var changes = 0

  /** Rises whenever the filters change. */
  def version: Int = changes

  /** The task starts with a partition of the scan. */
  def startPartition(next: Int): Unit = {
    finish()
    partition = next
    schedule = null
    at = ReadPlace.start
    entry = -1
  }

  /** The task goes on from this place, with newer filters if the rule allows it.
    *
    * @param news whether there may be newer filters
    */
  def advance(place: ReadPlace, news: => Boolean): Unit = if (place > at) {
    fix()
    at = place
    // If an answer did not come, the task does not wait for another one.
    if (snapshots.change && !isUntold && entry == schedule.size - 1 && news) ask(Some(place))
    hold()
  }

  /** The task reads the current file to its end with the current filters, because it does not see the row groups.
    *
    * @throws SnapshotUnavailable if an earlier attempt went on to newer filters inside this file
    */
  def readWholeFile(): Unit = {
    fix()
    if (schedule.exists(e => e.from > at && e.from.file == at.file))
      throw new SnapshotUnavailable("an earlier attempt followed the row groups of a file that this one cannot follow")
  }

  // Fixes the schedule as late as the rule allows.
  private def fix(): Unit = if (schedule == null) {
    schedule = snapshots.table.onlyFirst
    try {
      if (snapshots.change || (snapshots.givesUp && hasToAsk)) ask(None)
      else isUntold = snapshots.givesUp
      hold()
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }
  }

  /** Whether to ask although all filters travelled with the task: the driver may have disabled tests by one of them. */
  private def hasToAsk = tests.exists(_.isDisabled) || !TaskSnapshots.isFirst(context, snapshots.table)

  private def ask(newFrom: Option[ReadPlace]): Unit =
    TaskSnapshots.ask(context, snapshots.table, partition, newFrom) match {
      // The part before this place stays: only this attempt could have added to it.
      case Some(known) if newFrom.isEmpty || known.startsWith(schedule) => schedule = known
      case _ => isUntold = true
    }

  /** Takes the filters of the schedule at this place. */
  private def hold(): Unit = {
    val now = schedule.lastIndexWhere(_.from <= at)
    if (now != entry) {
      entry = now
      changes += 1
      tested = Array.fill(columns.size)(true)
      filters = Array.tabulate(columns.size) { i =>
        val found = schedule(now).filters(i) match {
          case SnapshotFilter.Travelled(isTested) => tested(i) = isTested; sent.travelled(context, i)
          case v: SnapshotFilter.Values => tested(i) = v.tested; Some(v.filter)
          case _ => None
        }
        found.map(columns(i).converted).getOrElse(unknown(columns(i)))
      }
    }
  }

  private def unknown(column: FilteredColumn): ValueFilter = column.ref match {
    // The first generation travels with the scan.
    case u: UserRef => column.converted(u.generation)
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

  /** The partition has been read: reports its schedule, if the driver may not know it, and the tests of rows. */
  def finish(): Unit = Option(schedule).foreach { now =>
    val used = Option.when(isUntold)(now)
    // Reported once for the partition: the driver decides, and sees it only with the task's result. Costs do not count: a dropped
    // row is not shuffled, and times tell little while other processes run.
    val did = rows.indices.map(i => StepResult(rows(i), passed(i), Cost.none))
    if (snapshots.givesUp) did.zip(tests).foreach { case (t, tracker) => if (t.rows > 0) tracker.add(t) }
    if (isUntold || rows.exists(_ > 0)) snapshots.uses.add(SnapshotUse(partition, used, did))
    rows = new Array[Long](columns.size)
    passed = new Array[Long](columns.size)
    isUntold = false
    schedule = null
  }

  /** Whether tests of rows by some filter are disabled. */
  def gaveUp: Boolean = tested != null && tested.contains(false)
}

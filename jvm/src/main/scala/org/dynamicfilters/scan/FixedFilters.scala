package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.exchange.{SnapshotUnavailable, TaskSnapshots}
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.state._

/** The filters of joins and users of a scan in one task for which the rule of [[Snapshots]] holds.
  *
  * @param refs
  *   the scan's filters
  * @param domains
  *   by filter, the type of the scan's column
  * @param ready
  *   the filters that travelled with the scan
  * @param tests
  *   by filter, what tests of rows did in the tasks of this process; may be empty where `snapshots` never give up
  */
private[scan] final class FixedFilters(
    refs: IndexedSeq[FilterRef],
    domains: IndexedSeq[KeyDomain],
    ready: ReadyFilters,
    snapshots: ScanSnapshots,
    tests: IndexedSeq[StepTracker],
    context: TaskContext
) {
  private var partition = -1
  private var schedule: Vector[ScheduleEntry] = _
  // The driver may not know what this attempt uses.
  private var isUntold = false
  private var at = ReadPlace.start
  // The entry of the schedule that holds at this place, and its filters.
  private var entry = -1
  private var filters: Array[ValueFilter] = _
  private var tested: Array[Boolean] = _
  private var (rows, passed) = (new Array[Long](refs.size), new Array[Long](refs.size))

  /** Rises whenever other filters hold. */
  var version = 0

  /** The task goes on with this partition of the scan. */
  def reads(next: Int): Unit = {
    finish()
    partition = next
    schedule = null
    at = ReadPlace.start
    entry = -1
  }

  /** It goes on from this place on, with newer filters if it may.
    *
    * @param news
    *   whether there may be newer ones
    */
  def reaches(place: ReadPlace, news: => Boolean): Unit = if (place > at) {
    fix()
    at = place
    // After an answer that did not come the task does not wait for another.
    if (snapshots.change && !isUntold && entry == schedule.size - 1 && news) ask(Some(place))
    hold()
  }

  /** The file that was reached is read to its end with the filters that hold now: its row groups cannot be followed.
    *
    * @throws SnapshotUnavailable
    *   an earlier attempt went on with newer filters inside this file
    */
  def readsWhole(): Unit = {
    fix()
    if (schedule.exists(e => e.from > at && e.from.file == at.file))
      throw new SnapshotUnavailable("an earlier attempt followed the row groups of a file that this one cannot follow")
  }

  // As late as the rule allows.
  private def fix(): Unit = if (schedule == null) {
    schedule = snapshots.table.onlyFirst
    try {
      if (snapshots.change || (snapshots.givesUp && hasToAsk)) ask(None)
      else isUntold = snapshots.givesUp
      hold()
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }
  }

  /** All filters that there will be have travelled with the task. What the driver could say is that one is not worth testing. */
  private def hasToAsk = tests.exists(_.isDisabled) || !TaskSnapshots.isFirst(context, snapshots.table)

  private def ask(newFrom: Option[ReadPlace]): Unit =
    TaskSnapshots.ask(context, snapshots.table, partition, newFrom) match {
      // The part before this place stays: only this attempt could have added to it.
      case Some(known) if newFrom.isEmpty || known.startsWith(schedule) => schedule = known
      case _ => isUntold = true
    }

  /** Takes the filters that hold at this place. */
  private def hold(): Unit = {
    val now = schedule.lastIndexWhere(_.from <= at)
    if (now != entry) {
      entry = now
      version += 1
      tested = Array.fill(refs.size)(true)
      filters = Array.tabulate(refs.size) { i =>
        val found = schedule(now).filters(i) match {
          case SnapshotFilter.Travelled(isTested) => tested(i) = isTested; ready.travelled(context, i)
          case v: SnapshotFilter.Values => tested(i) = v.tested; Some(v.filter)
          case _ => None
        }
        found.map(_.convert(domains(i))).getOrElse(unknown(i))
      }
    }
  }

  private def unknown(i: Int): ValueFilter = refs(i) match {
    // What the query started with travels with the scan.
    case u: UserRef => u.generation.filterFor(domains(i))
    case _ => ValueFilter.All
  }

  /** The filter, by its place among the scan's. */
  def apply(i: Int): ValueFilter = { fix(); filters(i) }

  /** Whether rows are tested by it. */
  def isTested(i: Int): Boolean = { fix(); tested(i) }

  /** What testing rows by it did. */
  def saw(i: Int, before: Long, after: Long): Unit = {
    rows(i) += before
    passed(i) += after
  }

  /** The partition has been read. */
  def finish(): Unit = Option(schedule).foreach { now =>
    val used = Option.when(isUntold)(now)
    // Not with each batch: the driver, who decides, hears of it no earlier. Costs do not count: a row that is dropped is not
    // shuffled, and times tell little while other processes run.
    val did = rows.indices.map(i => Tested(rows(i), passed(i), Cost.none))
    if (snapshots.givesUp) did.zip(tests).foreach { case (t, tracker) => if (t.rows > 0) tracker.add(t) }
    if (isUntold || rows.exists(_ > 0)) snapshots.uses.add(SnapshotUse(partition, used, did))
    rows = new Array[Long](refs.size)
    passed = new Array[Long](refs.size)
    isUntold = false
    schedule = null
  }

  /** Whether rows are not tested by some filter, because that is not worth it. */
  def gaveUp: Boolean = tested != null && tested.contains(false)
}

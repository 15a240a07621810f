package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.{SparkContext, TaskContext}
import org.dynamicfilters.exchange._
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}

/** Which filters each partition of a scan is read with (contract 8). Travels with the scan's tasks.
  *
  * @param uses
  *   takes what tasks say of their snapshots
  * @param change
  *   whether filters of joins or users may come while the scan runs
  */
final class ScanSnapshots private (val table: SnapshotsRef, val uses: SnapshotUses, val change: Boolean)
    extends Serializable

object ScanSnapshots {

  /** On the driver, when a scan is started.
    *
    * @param refs
    *   the scan's filters. TopKs have no part in it: their taps fix the bound
    * @param travels
    *   by filter, whether it travels with the tasks
    * @param giveUpSelectivity
    *   see [[Snapshots]]
    */
  def apply(
      sc: SparkContext,
      refs: IndexedSeq[FilterRef],
      travels: Int => Boolean,
      giveUpSelectivity: Double = 1.0
  ): ScanSnapshots = {
    def now(executionId: Option[Long], tested: Int => Boolean): IndexedSeq[SnapshotFilter] =
      refs.zipWithIndex.map {
        case (j: JoinRef, i) =>
          j.state.current.fold[SnapshotFilter](SnapshotFilter.Unknown)(SnapshotFilter.Values(_, tested(i)))
        case (u: UserRef, i) if u.follows =>
          executionId
            .flatMap(FilterRef.user(_, u.id))
            .fold[SnapshotFilter](SnapshotFilter.Unknown)(s => SnapshotFilter.Values(s.newest.filter, tested(i)))
        case _ => SnapshotFilter.Unknown
      }
    // A filter may become complete between the choice of what travels and now.
    val first = refs.zipWithIndex.map {
      case (j: JoinRef, i) if travels(i) =>
        j.state.current.fold[SnapshotFilter](SnapshotFilter.Unknown)(SnapshotFilter.Values(_, tested = true))
      case (u: UserRef, _) if u.follows => SnapshotFilter.Values(u.generation.filter, tested = true)
      case _ => SnapshotFilter.Unknown
    }
    val table = new Snapshots(first, now, giveUpSelectivity = giveUpSelectivity)
    val uses = new SnapshotUses(table)
    sc.register(uses)
    val change = refs.exists {
      case _: JoinRef => true
      case u: UserRef => u.follows
      case _ => false
    }
    new ScanSnapshots(new SnapshotsRef(table, TaskFilters.shares(sc)), uses, change)
  }
}

/** The filters of joins and users of a scan in one task whose output must be the same in every attempt of its partition.
  *
  * @param refs
  *   the scan's filters
  * @param domains
  *   by filter, the type of the scan's column; None for tuples
  * @param ready
  *   what travelled with the scan: the filters of snapshot 0
  */
private[scan] final class FixedFilters(
    refs: IndexedSeq[FilterRef],
    domains: IndexedSeq[Option[KeyDomain]],
    ready: ReadyFilters,
    snapshots: ScanSnapshots,
    context: TaskContext
) {
  private var partition = -1
  private var schedule: SnapshotSchedule = _
  private var missedAnswer = false
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
    if (snapshots.change && !missedAnswer && entry == schedule.entries.size - 1 && news) ask(Some(place))
    hold()
  }

  // As late as possible, but before the first row.
  private def fix(): Unit = if (schedule == null) {
    schedule = SnapshotSchedule(Snapshots.onlyFirst, Map.empty)
    try {
      if (snapshots.change) ask(None)
      hold()
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }
  }

  private def ask(newFrom: Option[ReadPlace]): Unit =
    TaskSnapshots.ask(context, snapshots.table, partition, newFrom) match {
      // The part before this place stays: only this attempt could have added to it.
      case Some(known) if newFrom.isEmpty || known.entries.startsWith(schedule.entries) => schedule = known
      case _ => missedAnswer = true
    }

  /** Takes the filters that hold at this place. */
  private def hold(): Unit = {
    val now = schedule.entries.lastIndexWhere(_.from <= at)
    if (now != entry) {
      entry = now
      version += 1
      val content = schedule.snapshots.get(schedule.entries(now).number)
      tested = Array.fill(refs.size)(true)
      filters = Array.tabulate(refs.size) { i =>
        val found = content match {
          case None => ready.travelled(context, refs(i), i)
          case Some(fs) =>
            fs(i) match {
              case SnapshotFilter.Values(f, isTested) => tested(i) = isTested; Some(f)
              case _ => None
            }
        }
        found.map(f => domains(i).fold(f)(f.convert)).getOrElse(unknown(i))
      }
    }
  }

  private def unknown(i: Int): ValueFilter = (refs(i), domains(i)) match {
    // What the query started with travels with the scan.
    case (u: UserRef, Some(domain)) => u.generation.filterFor(domain)
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
  def finish(): Unit = if (schedule != null) {
    val used = Option.when(missedAnswer)(schedule.entries)
    if (missedAnswer || rows.exists(_ > 0))
      snapshots.uses.add(SnapshotUse(partition, used, rows.indices.map(i => (rows(i), passed(i)))))
    rows = new Array[Long](refs.size)
    passed = new Array[Long](refs.size)
    missedAnswer = false
    schedule = null
  }

  /** Whether rows are not tested by some filter, because that is not worth it. */
  def gaveUp: Boolean = tested != null && tested.contains(false)
}

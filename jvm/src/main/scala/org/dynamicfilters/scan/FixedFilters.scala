package org.dynamicfilters.scan

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
    * @param giveUpSelectivity
    *   see [[Snapshots]]
    */
  def apply(sc: SparkContext, refs: IndexedSeq[FilterRef], giveUpSelectivity: Double = 1.0): ScanSnapshots = {
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
    val table = new Snapshots(now(TaskFilters.executionId(sc), _ => true), now, giveUpSelectivity = giveUpSelectivity)
    val uses = new SnapshotUses(table)
    sc.register(uses)
    val change = refs.exists {
      case _: JoinRef => true
      case u: UserRef => u.follows
      case _ => false
    }
    new ScanSnapshots(new SnapshotsRef(table), uses, change)
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
  private var filters: Array[ValueFilter] = _
  private var tested: Array[Boolean] = _
  private var usedFirst = false
  private var (rows, passed) = (new Array[Long](refs.size), new Array[Long](refs.size))

  /** The task goes on with this partition of the scan. */
  def reads(next: Int): Unit = if (next != partition) {
    finish()
    partition = next
    filters = null
  }

  // As late as possible, but before the first row.
  private def fix(): Unit = if (filters == null) {
    val taken = if (snapshots.change) TaskSnapshots.take(context, snapshots.table, partition) else None
    usedFirst = snapshots.change && taken.isEmpty
    val content = taken.filter(_.number > 0).map(_.filters)
    tested = Array.fill(refs.size)(true)
    filters = Array.tabulate(refs.size) { at =>
      val found = content match {
        case None => ready.travelled(context, refs(at), at)
        case Some(fs) =>
          fs(at) match {
            case SnapshotFilter.Values(f, isTested) => tested(at) = isTested; Some(f)
            case _ => None
          }
      }
      found.map(f => domains(at).fold(f)(f.convert)).getOrElse(unknown(at))
    }
  }

  private def unknown(at: Int): ValueFilter = (refs(at), domains(at)) match {
    // What the query started with travels with the scan.
    case (u: UserRef, Some(domain)) => u.generation.filterFor(domain)
    case _ => ValueFilter.All
  }

  /** The filter, by its place among the scan's. */
  def apply(at: Int): ValueFilter = { fix(); filters(at) }

  /** Whether rows are tested by it. */
  def isTested(at: Int): Boolean = { fix(); tested(at) }

  /** What testing rows by it did. */
  def saw(at: Int, before: Long, after: Long): Unit = {
    rows(at) += before
    passed(at) += after
  }

  /** The partition has been read. */
  def finish(): Unit = if (filters != null) {
    if (usedFirst || rows.exists(_ > 0))
      snapshots.uses.add(SnapshotUse(partition, usedFirst, rows.indices.map(i => (rows(i), passed(i)))))
    rows = new Array[Long](refs.size)
    passed = new Array[Long](refs.size)
    usedFirst = false
  }

  /** Whether rows are not tested by some filter, because that is not worth it. */
  def gaveUp: Boolean = filters != null && tested.contains(false)
}

package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.exchange.{SnapshotUnavailable, TaskSnapshots}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state._

/** The filters of joins and users of a scan below an exchange in one task, by the rule of [[Snapshots]]. */
private[scan] final class FixedFilters(
    columns: IndexedSeq[FilteredColumn],
    sent: SentFilters,
    snapshots: SnapshotsRef,
    context: TaskContext
) {
  private var partition = -1
  // Of the partition; null until a filter is asked for, which is as late as the rule allows.
  private var filters: IndexedSeq[ValueFilter] = _

  /** The task starts with a partition of the scan. */
  def startPartition(next: Int): Unit = {
    partition = next
    filters = null
  }

  /** A filter by its position among the scan's. */
  def apply(i: Int): ValueFilter = {
    if (filters == null) filters = fixed()
    filters(i)
  }

  private def fixed(): IndexedSeq[ValueFilter] =
    try {
      val snapshot = TaskSnapshots.ofPartition(context, snapshots, partition)
      columns.indices.map(i => filter(snapshot(i), i))
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }

  private def filter(of: SnapshotFilter, i: Int): ValueFilter = {
    val found = of match {
      case SnapshotFilter.Travelled => sent.travelled(context, i)
      case v: SnapshotFilter.Values => Some(v.filter)
      case _ => None
    }
    found.map(columns(i).converted).getOrElse(unknown(columns(i)))
  }

  private def unknown(column: FilteredColumn): ValueFilter = column.ref match {
    // The first generation travels with the scan.
    case u: UserRef => column.converted(u.generation)
    case j: JoinRef =>
      // Subscribes to the filter. The driver then sends its contents before a later partition asks for them.
      TaskFilters.late(context, j.id)
      ValueFilter.All
    case _ => ValueFilter.All
  }
}

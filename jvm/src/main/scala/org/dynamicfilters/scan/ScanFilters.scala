package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.exchange.{SnapshotUnavailable, TaskSnapshots}
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.state._
import org.dynamicfilters.user.Generation

/** A filter on a column of a scan. */
trait FilteredColumn {
  def ref: FilterRef

  /** The type of the column; may be a narrower integer type than the filter's. */
  def domain: KeyDomain

  /** The condition on the column for a condition on the filter's key. */
  def converted(filter: ValueFilter): ValueFilter = filter.convert(domain)

  /** The same for a generation of a user filter. */
  def converted(generation: Generation): ValueFilter = generation.filterFor(domain)
}

/** The filters of a scan in one task, by column. Below an exchange those of joins and users hold for whole partitions,
  * by the rule of [[Snapshots]].
  */
private[scan] final class ScanFilters(
    columns: IndexedSeq[FilteredColumn],
    sent: SentFilters,
    context: TaskContext
) {
  private val snapshots: Option[SnapshotsRef] = sent.snapshots.filter(_ => TaskSnapshots.outputMustBeFixed)
  private var partition = -1
  // Of the partition; null until a filter is asked for, which is as late as the rule allows.
  private var fixed: IndexedSeq[ValueFilter] = _

  /** Whether the filters of joins and users hold for whole partitions. */
  def isFixed: Boolean = snapshots.isDefined

  /** The task starts with a partition of the scan. */
  def startPartition(next: Int): Unit = {
    partition = next
    fixed = null
  }

  // As they came and as they apply to the column; null if unknown.
  private val (found, converted) = (new Array[ValueFilter](columns.size), new Array[ValueFilter](columns.size))

  /** The filter in force; All if nothing is known. */
  def apply(i: Int): ValueFilter = columns(i).ref match {
    case _: JoinRef | _: UserRef if isFixed =>
      if (fixed == null) fixed = ofPartition(snapshots.get)
      fixed(i)
    case _ => newest(i)
  }

  private def ofPartition(table: SnapshotsRef): IndexedSeq[ValueFilter] =
    try {
      val snapshot = TaskSnapshots.ofPartition(context, table, partition)
      columns.indices.map(i => ofSnapshot(snapshot(i), i))
    } catch { case NonFatal(e) => throw new SnapshotUnavailable(s"filters that travelled with a task are gone: $e") }

  private def ofSnapshot(of: SnapshotFilter, i: Int): ValueFilter = {
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

  /** The newest filter that this process knows. If the partition has a snapshot, that one is in force instead. */
  private def newest(i: Int): ValueFilter = columns(i).ref match {
    case t: TopKRef => TaskFilters.filter(context, t, sent.runs(i)).fold[ValueFilter](ValueFilter.All)(convert(i, _))
    case j: JoinRef => once(i)(sent.find(context, j, i))
    case _: SubqueryRef => once(i)(sent.travelled(context, i))
    case u: UserRef =>
      try ofUser(i, u)
      catch {
        // The predicate above the scan tests the rows again.
        case NonFatal(_) => ValueFilter.All
      }
  }

  /** Looks up a filter that never changes until it is found, then keeps it, also after the execution has ended. */
  private def once(i: Int)(find: => Option[ValueFilter]): ValueFilter = {
    if (found(i) == null) find.foreach(convert(i, _))
    Option(converted(i)).getOrElse(ValueFilter.All)
  }

  private def convert(i: Int, filter: ValueFilter): ValueFilter = convertOnce(i, filter)(columns(i).converted(filter))
  private def convert(i: Int, g: Generation): ValueFilter = convertOnce(i, g.filter)(columns(i).converted(g))

  // Scans ask again for each batch.
  private def convertOnce(i: Int, filter: ValueFilter)(conversion: => ValueFilter): ValueFilter = {
    if (filter ne found(i)) {
      if (filter != found(i)) converted(i) = conversion
      found(i) = filter
    }
    converted(i)
  }

  /** The generation at the query's start, or a tighter one if the filter follows updates. */
  private def ofUser(i: Int, ref: UserRef): ValueFilter =
    TaskFilters.executionId(context).filter(_ => ref.follows).fold(convert(i, ref.generation)) { execution =>
      FilterRef.user(execution, ref.id) match {
        // In the driver's process.
        case Some(state) => convert(i, state.newest)
        case None => TaskFilters.late(context, ref.id).fold(convert(i, ref.generation))(convert(i, _))
      }
    }
}

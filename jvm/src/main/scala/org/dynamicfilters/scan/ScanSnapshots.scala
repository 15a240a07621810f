package org.dynamicfilters.scan

import org.apache.spark.SparkContext
import org.dynamicfilters.exchange.DriverExchange
import org.dynamicfilters.state._

/** Which filters each partition of a scan is read with, by the rule of [[Snapshots]]. Travels with the scan's tasks.
  *
  * @param uses
  *   takes what tasks say of their snapshots
  * @param change
  *   whether filters of joins or users may come while the scan runs
  * @param givesUp
  *   whether filters may turn out not to be worth testing
  */
final class ScanSnapshots private (
    val table: SnapshotsRef,
    val uses: ResultItems[SnapshotUse],
    val change: Boolean,
    val givesUp: Boolean
) extends Serializable

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
      giveUpSelectivity: Double
  ): ScanSnapshots = {
    val first = refs.zipWithIndex.map {
      case (_: JoinRef, i) if travels(i) => SnapshotFilter.Travelled(tested = true)
      case (u: UserRef, _) if u.follows => SnapshotFilter.Travelled(tested = true)
      case _ => SnapshotFilter.Unknown
    }
    // In local mode there is no exchange: the task that asks builds the filter.
    def current(state: JoinState) = DriverExchange.current.fold(state.named)(_.coordinator.currentForTask(state))
    def updated(u: UserRef, executionId: Option[Long]) = for {
      id <- executionId
      state <- FilterRef.user(id, u.id)
      newest = state.newest if newest != u.generation
    } yield NamedFilter(FilterName(u.id, newest.number), newest.filter)
    def now(executionId: Option[Long], tested: Int => Boolean): IndexedSeq[SnapshotFilter] =
      refs.indices.map { i =>
        val late = refs(i) match {
          case j: JoinRef if !travels(i) => current(j.state)
          case u: UserRef if u.follows => updated(u, executionId)
          case _ => None
        }
        late match {
          case Some(f) => SnapshotFilter.Values(f.name, tested(i))(f.filter)
          case None if first(i) == SnapshotFilter.Unknown => SnapshotFilter.Unknown
          case None => SnapshotFilter.Travelled(tested(i))
        }
      }
    val table = new Snapshots(first, now, giveUpSelectivity = giveUpSelectivity)
    val uses = new ResultItems[SnapshotUse](table.record)
    sc.register(uses)
    val change = refs.zip(first).exists {
      case (j: JoinRef, SnapshotFilter.Unknown) => !j.state.phase.isInstanceOf[JoinPhase.Disabled]
      case (u: UserRef, _) => u.follows
      case _ => false
    }
    val givesUp = giveUpSelectivity < 1 && first.exists(_ != SnapshotFilter.Unknown)
    new ScanSnapshots(new SnapshotsRef(table, TaskFilters.shares(sc)), uses, change, givesUp)
  }
}

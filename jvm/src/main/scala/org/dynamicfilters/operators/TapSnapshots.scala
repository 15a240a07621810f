package org.dynamicfilters.operators

import org.apache.spark.{SparkContext, TaskContext}
import org.dynamicfilters.exchange.{DriverExchange, TaskSnapshots}
import org.dynamicfilters.state._

/** With which shared bounds each partition of a tap is computed, by the rule of [[Snapshots]]. Travels with the tap's tasks. */
private[operators] final class TapSnapshots private (table: SnapshotsRef) extends Serializable {

  /** By filter. None is no bound: then the attempt's own is all it has. */
  def bounds(context: TaskContext, partition: Int): IndexedSeq[TopKBound] =
    TaskSnapshots.ofPartition(context, table, partition).map {
      case SnapshotFilter.Bound(b) => b
      case _ => TopKBound.none
    }
}

private[operators] object TapSnapshots {

  /** On the driver, when a tap is started.
    *
    * @param runs by filter, see [[TopKRef.nextRun]]
    */
  def apply(sc: SparkContext, filters: Seq[TopKRef], runs: Seq[Long]): TapSnapshots = {
    val specs = filters.map(_.spec).toIndexedSeq
    val names = filters.zip(runs).map { case (f, run) => FilterName(f.id, run) }.toIndexedSeq
    val none: IndexedSeq[SnapshotFilter] = specs.map(_ => SnapshotFilter.Bound(TopKBound.none))
    val table = new Snapshots(
      none,
      _.fold(none)(id => specs.indices.map(i => SnapshotFilter.Bound(boundNow(id, names(i))))),
      specs
    )
    new TapSnapshots(SnapshotsRef(sc, table))
  }

  private def boundNow(executionId: Long, name: FilterName): TopKBound = DriverExchange.current match {
    case Some(cluster) => cluster.coordinator.bound(executionId, name)
    // All tasks are in this process.
    case None => Executions.instance.topK(executionId, name).fold(TopKBound.none)(_.bound)
  }
}

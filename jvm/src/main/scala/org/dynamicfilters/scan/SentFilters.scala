package org.dynamicfilters.scan

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.dynamicfilters.exchange.{DriverExchange, FilterBroadcasts}
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.state._

/** The filters that are sent with a scan's tasks, by column of the scan.
  *
  * The complete filters belong to one run of the plan, in which the build side was computed once. A plan that is
  * executed again keeps the build side's rows (Spark keeps the broadcast or the shuffle files), so the filter stays
  * right.
  *
  * @param runs see `TopKRef.nextRun`
  * @param filters the filters that were complete when the scan started; null if there is none
  * @param snapshots for the rule of [[org.dynamicfilters.state.Snapshots]], if it may apply
  */
final class SentFilters private (
    val runs: IndexedSeq[Long],
    filters: Array[SentFilters.Encoded],
    val snapshots: Option[SnapshotsRef]
) extends Serializable {

  /** The filter as this task can have it now.
    *
    * @return None if it was not complete when the scan was started, and this process has not heard of it since
    */
  def find(context: TaskContext, ref: JoinRef, at: Int): Option[ValueFilter] =
    if (TaskFilters.executionId(context).isEmpty) None
    else
      travelled(context, at)
        // In the driver's own process a late filter is seen as it is.
        .orElse(FilterRef.join(ref.id).flatMap(_.current))
        .orElse(TaskFilters.late(context, ref.id))

  /** The filter if it was complete when the scan was started. Also for tasks without an execution, by the rule of
    * [[org.dynamicfilters.state.Snapshots]].
    */
  def travelled(context: TaskContext, at: Int): Option[ValueFilter] = Option(filters(at)).flatMap { encoded =>
    val execution = TaskFilters.executionId(context)
    // In the driver's own process the same filter, with nothing to decode.
    val here = FilterRef.join(encoded.name.filterId).flatMap(_.named)
    here
      .filter(_.name == encoded.name)
      .map(_.filter)
      .orElse(Executions.instance.contents(execution, encoded.name)(FilterCodec.decode(encoded.bytes).toOption))
      // A filter that cannot be decoded passes all rows.
      .orElse(Some(ValueFilter.All))
  }
}

object SentFilters {

  /** A task's closure is decoded in every task, a broadcast once in a process. */
  private val InlineBytes = 64 * 1024

  /** @param complete the filters that are complete
    * @param isShown whether the output of the scan's stage depends on filters that change while the scan runs
    */
  def apply(
      sc: SparkContext,
      refs: IndexedSeq[FilterRef],
      complete: IndexedSeq[Option[NamedFilter]],
      isShown: Boolean
  ): SentFilters = {
    def encoded(f: NamedFilter) = {
      val bytes = FilterCodec.encode(f.filter)
      if (bytes.length <= InlineBytes) new Encoded(f.name, bytes, null)
      else new Encoded(f.name, null, FilterBroadcasts(sc, TaskFilters.executionId(sc), bytes))
    }
    new SentFilters(
      refs.map(_.currentRun),
      complete.map(_.map(encoded).orNull).toArray,
      Option.when(isShown)(snapshots(sc, refs, complete(_).isDefined))
    )
  }

  /** Which filters each partition of a scan is read with, by the rule of [[Snapshots]].
    *
    * @param refs the scan's filters. TopKs have no part in it: their taps fix the bound
    * @param travels by filter, whether it travels with the tasks
    */
  private def snapshots(sc: SparkContext, refs: IndexedSeq[FilterRef], travels: Int => Boolean): SnapshotsRef = {
    val first = refs.zipWithIndex.map {
      case (_: JoinRef, i) if travels(i) => SnapshotFilter.Travelled
      case (u: UserRef, _) if u.follows => SnapshotFilter.Travelled
      case _ => SnapshotFilter.Unknown
    }
    // In local mode there is no exchange: the task that asks builds the filter.
    def current(state: JoinState) = DriverExchange.current.fold(state.named)(_.coordinator.currentForTask(state))
    def updated(u: UserRef, executionId: Option[Long]) = for {
      id <- executionId
      state <- FilterRef.user(id, u.id)
      newest = state.newest if newest != u.generation && DriverExchange.canPush(newest.sizeBytes)
    } yield NamedFilter(FilterName(u.id, newest.number), newest.filter)
    def now(executionId: Option[Long]): IndexedSeq[SnapshotFilter] =
      refs.indices.map { i =>
        val late = refs(i) match {
          case j: JoinRef if !travels(i) => current(j.state)
          case u: UserRef if u.follows => updated(u, executionId)
          case _ => None
        }
        late.fold(first(i))(f => SnapshotFilter.Values(f.name)(f.filter))
      }
    val mayChange = refs.zip(first).exists {
      case (j: JoinRef, SnapshotFilter.Unknown) => !j.state.phase.isDisabled
      case (u: UserRef, _) => u.follows
      case _ => false
    }
    SnapshotsRef(sc, new Snapshots(first, now), mayChange)
  }

  private final class Encoded(val name: FilterName, inline: Array[Byte], broadcast: Broadcast[Array[Byte]])
      extends Serializable {
    def bytes: Array[Byte] = if (inline != null) inline else broadcast.value
  }
}

package org.dynamicfilters.scan

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.dynamicfilters.exchange.FilterBroadcasts
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.state.{Executions, FilterName, JoinRef, NamedFilter, TaskFilters}

/** The filters that were complete when a scan was started; they travel with it.
  *
  * They belong to one run of the plan, in which the build side was computed once. A plan that is executed again keeps the
  * build side's rows (Spark keeps the broadcast or the shuffle files), hence the filter stays right.
  *
  * @param filters
  *   by column of the scan's spec; null where there is none
  */
final class ReadyFilters private (filters: Array[ReadyFilters.Encoded]) extends Serializable {

  /** The filter as this task can have it now.
    *
    * @param at
    *   among the columns of the scan's spec
    * @return
    *   None if it was not complete when the scan was started, and this process has not heard of it since
    */
  def find(context: TaskContext, ref: JoinRef, at: Int): Option[ValueFilter] =
    TaskFilters.executionId(context).flatMap { execution =>
      travelled(context, at)
        // In the driver's own process a late filter is seen as it is.
        .orElse(Executions.instance.joinFilter(execution, ref.id).flatMap(_.current))
        .orElse(TaskFilters.late(context, ref.id))
    }

  /** The filter if it was complete when the scan was started. Also for tasks without an execution, by the rule of
    * [[org.dynamicfilters.state.Snapshots]].
    */
  def travelled(context: TaskContext, at: Int): Option[ValueFilter] = Option(filters(at)).flatMap { encoded =>
    val execution = TaskFilters.executionId(context)
    // In the driver's own process the same filter, with nothing to decode.
    val here = execution.flatMap(Executions.instance.joinFilter(_, encoded.name.filterId)).flatMap(_.named)
    here
      .filter(_.name == encoded.name)
      .map(_.filter)
      .orElse(Executions.instance.contents(execution, encoded.name)(FilterCodec.decode(encoded.bytes).toOption))
      // What cannot be decoded lets everything pass.
      .orElse(Some(ValueFilter.All))
  }
}

object ReadyFilters {
  val none: ReadyFilters = new ReadyFilters(Array.empty)

  /** A task's closure is decoded in every task, a broadcast once in a process. */
  private val InlineBytes = 64 * 1024

  /** @param filters
    *   by column of the scan's spec
    */
  def apply(sc: SparkContext, filters: Seq[Option[NamedFilter]]): ReadyFilters = new ReadyFilters(
    filters
      .map(_.map { f =>
        val bytes = FilterCodec.encode(f.filter)
        if (bytes.length <= InlineBytes) new Encoded(f.name, bytes, null)
        else new Encoded(f.name, null, FilterBroadcasts(sc, TaskFilters.executionId(sc), bytes))
      }.orNull)
      .toArray
  )

  private final class Encoded(val name: FilterName, inline: Array[Byte], broadcast: Broadcast[Array[Byte]])
      extends Serializable {
    def bytes: Array[Byte] = if (inline != null) inline else broadcast.value
  }
}

package org.dynamicfilters.scan

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.dynamicfilters.exchange.FilterBroadcasts
import org.dynamicfilters.filter.{FilterCodec, SoftCached, ValueFilter}
import org.dynamicfilters.state.{Executions, FilterRef, JoinRef, TaskFilters}

/** The filters that were complete when a scan was started; they travel with it.
  *
  * They belong to one run of the plan, in which the build side was computed once. A plan that is executed again keeps the
  * build side's rows (Spark keeps the broadcast or the shuffle files), hence the filter stays right.
  *
  * @param filters
  *   by column of the scan's spec, then by tuple of columns; null where there is none: encoded, or a broadcast of that
  */
final class ReadyFilters private (filters: Array[Either[Array[Byte], Broadcast[Array[Byte]]]]) extends Serializable {

  /** The filter as this task can have it now.
    *
    * @param at
    *   among the columns and tuples of the scan's spec
    * @return
    *   None if it was not complete when the scan was started, and this process has not heard of it since
    */
  def find(context: TaskContext, ref: JoinRef, at: Int): Option[ValueFilter] =
    TaskFilters.executionId(context).flatMap { execution =>
      // In the driver's own process there is nothing to decode, and a late filter is seen as well.
      Executions.instance.joinFilter(execution, ref.id).flatMap(_.current).orElse {
        if (filters(at) == null) {
          if (TaskFilters.shares(context)) Executions.instance.open(execution).flatMap(_.lateFilter(ref.id)) else None
        } else Some(decodedOnce(execution, ref, at))
      }
    }

  /** The filter if it was complete when the scan was started. Also for tasks without an execution: a partition that is computed
    * again for another query is computed with the same filters.
    */
  def travelled(context: TaskContext, ref: FilterRef, at: Int): Option[ValueFilter] = Option.when(filters(at) != null) {
    TaskFilters.executionId(context).fold(decode(at)) { execution =>
      // The same filter, with nothing to decode.
      Executions.instance.joinFilter(execution, ref.id).flatMap(_.current).getOrElse(decodedOnce(execution, ref, at))
    }
  }

  private def decodedOnce(execution: Long, ref: FilterRef, at: Int): ValueFilter =
    Executions.instance
      .attach(execution, ("ready", ref.id))(new SoftCached[ValueFilter])
      .flatMap(_.value(Some(decode(at))))
      .getOrElse(decode(at))

  private def decode(at: Int): ValueFilter = {
    val bytes = filters(at) match {
      case Left(inline) => inline
      case Right(broadcast) => broadcast.value
    }
    // What cannot be decoded lets everything pass.
    FilterCodec.decode(bytes).getOrElse(ValueFilter.All)
  }
}

object ReadyFilters {
  val none: ReadyFilters = new ReadyFilters(Array.empty)

  /** A task's closure is decoded in every task, a broadcast once in a process. */
  private val InlineBytes = 64 * 1024

  /** @param filters
    *   by column of the scan's spec, then by tuple of columns
    */
  def apply(sc: SparkContext, filters: Seq[Option[ValueFilter]]): ReadyFilters = new ReadyFilters(
    filters.map {
      case None => null
      case Some(f) =>
        val bytes = FilterCodec.encode(f)
        if (bytes.length <= InlineBytes) Left(bytes)
        else Right(FilterBroadcasts.ofScan(sc, TaskFilters.executionId(sc), bytes))
    }.toArray
  )
}

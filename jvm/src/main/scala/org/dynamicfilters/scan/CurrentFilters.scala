package org.dynamicfilters.scan

import org.apache.spark.TaskContext
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state.{FilterRef, JoinRef, SubqueryRef, TaskFilters, TopKRef}

/** The filters of a scan in one task, as of now.
  *
  * @param size
  *   how many filters the scan has
  * @param runs
  *   by filter, see `TopKRef.nextRun`
  */
private[scan] final class CurrentFilters(
    size: Int,
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    context: TaskContext
) {
  private val complete = new Array[ValueFilter](size)

  /** The filter of a TopK, a join or a subquery; None where nothing is known, and for others.
    *
    * @param convert
    *   gives the condition on the scan's column
    */
  def apply(at: Int, ref: FilterRef, convert: ValueFilter => ValueFilter): Option[ValueFilter] = ref match {
    case t: TopKRef => TaskFilters.filter(context, t, runs(at)).map(convertBound(at, _, convert))
    case j: JoinRef => once(at, convert)(ready.find(context, j, at))
    case _: SubqueryRef => once(at, convert)(ready.travelled(context, at))
    case _ => None
  }

  // By filter, the last bound of a TopK and the condition made of it.
  private val bounds = new Array[(ValueFilter, ValueFilter)](size)

  private def convertBound(at: Int, bound: ValueFilter, convert: ValueFilter => ValueFilter): ValueFilter = {
    if (bounds(at) == null || bounds(at)._1 != bound) bounds(at) = (bound, convert(bound))
    bounds(at)._2
  }

  /** There is one generation only, so the filter is converted once. */
  private def once(at: Int, convert: ValueFilter => ValueFilter)(find: => Option[ValueFilter]): Option[ValueFilter] = {
    if (complete(at) == null) find.foreach(f => complete(at) = convert(f))
    Option(complete(at))
  }
}

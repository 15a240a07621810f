package org.dynamicfilters.report

import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.{Producer, SubqueryState}

/** A subquery's filter. All executions of a plan share its state. */
final case class SubqueryRun(state: SubqueryState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    def shown(is: FilterState.Value, reason: Option[Reason], generation: Long, f: ValueFilter, bytes: Long) =
      FilterView(
        state.filterId,
        Producer.subquery,
        state.columnNames,
        is,
        reason,
        generation,
        FilterText.forFilter(f, state.columnNames),
        bytes,
        times = state.filterTimes
      )
    state.outcome match {
      case None =>
        shown(FilterState.registered, Option.when(!running)(Reasons.NotRead), 0, ValueFilter.All, 0)
      case Some(Left(reason)) => shown(FilterState.disabled, Some(reason), 0, ValueFilter.All, 0)
      case Some(Right(f)) => shown(FilterState.ready, None, 1, f, FilterCodec.sizeOf(f))
    }
  }
}

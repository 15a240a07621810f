package org.dynamicfilters.report

import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Producer, SubqueryState}

/** A subquery's filter. All executions of a plan share its state. */
final case class SubqueryRun(state: SubqueryState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    val planned = FilterView(state.filterId, Producer.subquery, state.columnNames, times = state.filterTimes)
    state.outcome match {
      case None => planned.copy(reason = Option.when(!running)(Reasons.NotRead))
      case Some(Left(reason)) => planned.disabled(reason)
      case Some(Right(f)) => planned.complete(f, FilterCodec.sizeOf(f))
    }
  }
}

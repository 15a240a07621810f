package org.dynamicfilters.report

import org.dynamicfilters.state.{FilterTimes, Producer, UserState}

/** A user's filter in one execution. */
final case class UserRun(state: UserState) extends FilterRecord {
  override def view(executionId: Long, running: Boolean): FilterView = {
    val g = state.newest
    FilterView(
      state.ref.id,
      Producer.user,
      state.columnNames,
      FilterState.ready,
      state.reason.map(why => s"looked at above the scan only: $why").orNull,
      g.number,
      FilterText.of(g.filter, state.columnNames),
      g.sizeBytes,
      readyMillis = Some(0),
      times = FilterTimes(state.sinceMillis, state.sinceMillis, state.sinceMillis)
    )
  }
}

package org.dynamicfilters.state

/** When a filter came to be, for reports: milliseconds since 1970, 0 where it has not happened or is not known.
  *
  * @param registered
  *   it was planned, or its producer started
  * @param ready
  *   a join's filter was complete, a TopK had its first bound
  * @param used
  *   the first scan started that had it from its first row on
  */
final case class FilterTimes(registered: Long = 0, ready: Long = 0, used: Long = 0)

object FilterTimes {
  val unknown: FilterTimes = FilterTimes()
}

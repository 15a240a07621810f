package org.dynamicfilters.scan

import org.dynamicfilters.state.Cost

/** What tests of rows that were read cost one task, by filter of the scan: by column, then by tuple. */
private[scan] final class TestCosts(filters: Int) {
  private val (nanos, dropped) = (new Array[Long](filters), new Array[Long](filters))

  def add(filter: Int, nanos: Long, dropped: Long): Unit = {
    this.nanos(filter) += nanos
    this.dropped(filter) += dropped
  }

  /** What was added since this was asked last; None for a filter that tested nothing.
    *
    * @param perRow
    *   nanoseconds that are saved with a row
    * @param work
    *   nanoseconds since then
    */
  def take(perRow: Double, work: Long): IndexedSeq[Option[Cost]] = nanos.indices.map { i =>
    val cost = Option.when(nanos(i) > 0)(Cost(nanos(i), (dropped(i) * perRow).toLong, work))
    nanos(i) = 0
    dropped(i) = 0
    cost
  }
}

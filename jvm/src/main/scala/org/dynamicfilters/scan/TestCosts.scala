package org.dynamicfilters.scan

import org.dynamicfilters.state.Cost

/** What tests of rows did and cost in one task, by filter of the scan: by column, then by tuple. */
private[scan] final class TestCosts(filters: Int) {
  private val (nanos, dropped) = (new Array[Long](filters), new Array[Long](filters))
  private val (rows, passed) = (new Array[Long](filters), new Array[Long](filters))

  /** Rows were tested by a filter. */
  def count(filter: Int, before: Long, after: Long): Unit = {
    rows(filter) += before
    passed(filter) += after
  }

  /** So long that took, of rows that had been read. */
  def add(filter: Int, nanos: Long, dropped: Long): Unit = {
    this.nanos(filter) += nanos
    this.dropped(filter) += dropped
  }

  /** By filter, rows that were tested by it, then by filter those of them that passed. */
  def counts: Array[Long] = rows ++ passed

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

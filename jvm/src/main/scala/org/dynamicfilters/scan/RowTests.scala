package org.dynamicfilters.scan

import org.dynamicfilters.state.{Cost, StepTracker, Tested}

/** Tests of rows that were read, in one task: by which filters of the scan rows are tested, and what the tests did. Filters of
  * columns come before those of tuples.
  *
  * @param trackers
  *   by filter
  * @param isFixed
  *   by filter, whether the partition's snapshot decides about it: every row is tested then
  * @param saw
  *   takes what a test by such a filter did: the filter, rows that were tested and rows that passed
  */
private[scan] final class RowTests(
    trackers: IndexedSeq[StepTracker],
    report: ScanReport,
    isFixed: Int => Boolean = _ => false,
    saw: (Int, Long, Long) => Unit = (_, _, _) => ()
) extends RowSelector.Record {
  private val (rows, passed) = (new Array[Long](trackers.size), new Array[Long](trackers.size))

  // Since the last row group.
  private val (tested, dropped, spent) =
    (new Array[Long](trackers.size), new Array[Long](trackers.size), new Array[Long](trackers.size))

  /** Whether to test the next rows by a filter. */
  def isTaken(filter: Int): Boolean = isFixed(filter) || trackers(filter).isTaken()

  override def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit = {
    count(filter, before, after)
    if (isFixed(filter)) saw(filter, before, after)
    else {
      tested(filter) += before
      dropped(filter) += before - after
      spent(filter) += nanos
      record(filter, Tested(before, after, Cost.none))
    }
  }

  private def record(filter: Int, did: Tested): Unit =
    if (trackers(filter).add(did)) report.addReason(RowTests.Disabled)

  /** Counts rows that a first pass tested. If a snapshot decides about the filter, rows that pass are tested again, and counted
    * then.
    */
  def inFirstPass(filter: Int, before: Long, after: Long): Unit =
    if (!isFixed(filter)) count(filter, before, after)
    else {
      count(filter, before - after, 0)
      saw(filter, before - after, 0)
    }

  private def count(filter: Int, before: Long, after: Long): Unit = {
    rows(filter) += before
    passed(filter) += after
  }

  /** By filter, rows that were tested by it, then by filter those of them that passed. */
  def counts: Array[Long] = rows ++ passed

  /** Records the time of a row group, tests and all that was done with its rows included. A dropped row saved as much as a row
    * took.
    */
  def tookRowGroup(nanos: Long): Unit = trackers.indices.filterNot(isFixed).foreach { i =>
    val saved = if (tested(i) == 0) 0L else (nanos.toDouble * dropped(i) / tested(i)).toLong
    record(i, Tested(0, 0, Cost(spent(i), saved, nanos)))
    tested(i) = 0
    dropped(i) = 0
    spent(i) = 0
  }
}

private[scan] object RowTests {

  /** Rows of smaller row groups are always tested by filters of the same stage: the time of so few rows says nothing, and testing
    * them costs next to nothing.
    */
  val MeasurableRows = 10000L

  /** The reason in reports. */
  val Disabled =
    "most rows that were read pass the filters, or tests cost more than they save: they are not tested one by one"
}

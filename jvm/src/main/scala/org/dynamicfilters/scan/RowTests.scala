package org.dynamicfilters.scan

import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Cost, StepTracker, Tested}

/** Decides for one task which of the scan's filters test rows that were read, and counts the tests. A [[StepTracker]] for
  * each filter says whether its tests pay; for filters of a snapshot, [[org.dynamicfilters.state.Snapshots]] decides.
  *
  * @param isFixed
  *   by filter, whether the partition's snapshot decides about it, so that every row is tested
  * @param saw
  *   receives each test by such a filter: the filter, tested rows and passed rows
  */
private[scan] final class RowTests(
    trackers: IndexedSeq[StepTracker],
    report: ScanReport,
    isFixed: Int => Boolean = _ => false,
    saw: (Int, Long, Long) => Unit = (_, _, _) => ()
) extends RowSelector.Record {
  private val (rows, passed) = (new Array[Long](trackers.size), new Array[Long](trackers.size))

  // Counts since the last row group.
  private val (tested, dropped, spent) =
    (new Array[Long](trackers.size), new Array[Long](trackers.size), new Array[Long](trackers.size))

  /** Whether a filter tests the next rows. */
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
    if (trackers(filter).add(did)) report.addReason(Reasons.RowsNotTested)

  /** Counts rows that a first pass tested. If a snapshot decides about the filter, passing rows are tested and counted
    * again later.
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

  /** The tested rows by filter, then the passed rows by filter. */
  def counts: Array[Long] = rows ++ passed

  /** Records the time of a row group: reading, tests and all further work on its rows. Assumes that a dropped row saves
    * the average time of a row.
    */
  def tookRowGroup(nanos: Long): Unit = trackers.indices.filterNot(isFixed).foreach { i =>
    val saved = if (tested(i) == 0) 0L else (nanos.toDouble * dropped(i) / tested(i)).toLong
    record(i, Tested(0, 0, Cost(spent(i), saved, nanos)))
    tested(i) = 0
    dropped(i) = 0
    spent(i) = 0
  }
}

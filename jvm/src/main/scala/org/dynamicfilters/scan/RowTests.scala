package org.dynamicfilters.scan

import java.lang.management.ManagementFactory
import java.util.function.IntPredicate

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.{PluginFailure, Selection, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.StepTracker

/** Decides for one task which of the scan's filters test rows that were read, and counts the tests. A [[StepTracker]]
  * for each filter says whether its tests pay. The filters of a partition's snapshot test every row.
  *
  * @param isInSnapshot see [[TaskScan.isInSnapshot]]
  */
private[scan] final class RowTests(
    trackers: IndexedSeq[StepTracker],
    report: ScanReport,
    isInSnapshot: Int => Boolean = _ => false
) extends RowSelector.Record {
  // Counts since the last row group.
  private val (tested, dropped, spent) =
    (new Array[Long](trackers.size), new Array[Long](trackers.size), new Array[Long](trackers.size))

  /** Whether a filter tests the next rows. */
  def takesNext(filter: Int): Boolean = isInSnapshot(filter) || trackers(filter).takesNext()

  /** The filters that test the next rows.
    *
    * @param now the current filters, by column of the spec
    * @param columns position in the spec, and in the rows
    * @param field by position in the spec, the field of a struct column
    */
  def active(
      now: IndexedSeq[ValueFilter],
      columns: IndexedSeq[(Int, Int)],
      field: Int => Option[NestedField] = _ => None
  ): IndexedSeq[RowFilter] = columns.collect {
    case (i, at) if now(i) != ValueFilter.All && takesNext(i) => RowFilter(i, at, now(i), field(i))
  }

  override def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit =
    if (!isInSnapshot(filter)) {
      tested(filter) += before
      dropped(filter) += before - after
      spent(filter) += nanos
      if (trackers(filter).recordRows(before, after)) report.addReason(Reasons.RowsNotTested)
    }

  /** Records the time of a row group: reading, tests and all further work on its rows. Assumes that a dropped row saves
    * the average time of a row.
    */
  def recordRowGroupTime(nanos: Long): Unit = trackers.indices.filterNot(isInSnapshot).foreach { i =>
    val saved = if (tested(i) == 0) 0L else (nanos.toDouble * dropped(i) / tested(i)).toLong
    if (trackers(i).recordCost(spent(i), saved, nanos)) report.addReason(Reasons.RowsNotTested)
    tested(i) = 0
    dropped(i) = 0
    spent(i) = 0
  }
}

/** Drops rows from batches that were read in full, with the newest filters. A dropped row is not shuffled, sorted,
  * fetched or looked up in a join's hash table, which costs more than testing its key here.
  *
  * Because rows are tested here too, a plain read can be chosen if it is cheaper than late materialization. A filter
  * that arrives while a row group is read applies from the next batch on.
  *
  * @param active the filters that test the next batch
  */
final class BatchSelector(active: () => Seq[RowFilter], tests: RowTests, report: ScanReport) extends Logging {
  import ScanCounter._

  private val selector = new RowSelector(tests)
  private var failed = false

  /** The batch if all rows pass, else its passing rows ([[SelectedBatch]]), maybe none. */
  def apply(batch: ColumnarBatch): ColumnarBatch =
    if (failed || batch.numRows == 0) batch
    else
      try test(batch)
      catch {
        case PluginFailure(e) =>
          failed = true
          report.add(Fallbacks, 1)
          report.addReason(Reasons.Failed(e, "testing rows"))
          logWarning("Dynamic filters: failure while testing rows that were read; those of the file's rest all pass", e)
          batch
      }

  private def test(batch: ColumnarBatch): ColumnarBatch = {
    val filters = active()
    if (filters.isEmpty) batch
    else {
      val selection = selector.select(batch.numRows, batch.column, RowFilters(filters))
      val dropped = (batch.numRows - selection.count).toLong
      if (dropped == 0) batch
      else {
        val passing = SelectedBatch(batch, selection)
        report.add(RowsDropped, dropped)
        report.add(RowsOutput, -dropped)
        passing
      }
    }
  }
}

/** A filter that tests rows.
  *
  * @param at position of its column in the spec
  * @param position of the column in the batch or row
  * @param nested the field of the column, if it is a struct
  */
final case class RowFilter(at: Int, position: Int, filter: ValueFilter, nested: Option[NestedField] = None) {
  def passes(row: InternalRow): Boolean =
    if (nested.isEmpty) filter.passesRow(row, position) else nested.get.passes(filter, row, position)

  def select(column: ColumnVector, s: Selection): Unit =
    if (nested.isEmpty) filter.select(column, s) else nested.get.select(filter, column, s)
}

/** Filters that test the rows of batches.
  *
  * @param either filters of which a row needs to pass one, evaluated after the others
  */
final case class RowFilters(all: Seq[RowFilter], either: Option[DisjunctionTest] = None)

/** Finds the rows of batches that pass. Used by one task. The result is valid until the next call.
  *
  * @param record receives the effect and cost of each filter
  */
final class RowSelector(record: RowSelector.Record) {
  private var selection: Selection = _

  /** @param rows number of rows of the batch
    * @param vector by position in the required schema
    */
  def select(rows: Int, vector: Int => ColumnVector, filters: RowFilters): Selection = {
    if (selection == null || selection.rows.length < rows) selection = new Selection(rows)
    selection.all(rows)
    for (f <- filters.all if selection.count > 0) {
      val (before, from) = (selection.count.toLong, ThreadTime.nanos)
      f.select(vector(f.position), selection)
      record(f.at, before, selection.count.toLong, ThreadTime.nanos - from)
    }
    filters.either.foreach(_.select(vector, selection))
    selection
  }
}

object RowSelector {
  trait Record {

    /** @param filter position among the scan's filters
      * @param nanos processor time
      */
    def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit
  }

  /** Narrows a selection to the rows that pass a test. */
  def narrow(s: Selection)(passes: IntPredicate): Unit = {
    var i, kept = 0
    while (i < s.count) {
      val r = s.rows(i)
      s.rows(kept) = r
      if (passes.test(r)) kept += 1
      i += 1
    }
    s.count = kept
  }
}

/** Processor time of the current thread, which other tasks on the core do not affect. Reading it takes at most a
  * microsecond.
  */
private[scan] object ThreadTime {
  private val threads = ManagementFactory.getThreadMXBean
  private val isKnown = threads.isCurrentThreadCpuTimeSupported && threads.isThreadCpuTimeEnabled

  /** Nanoseconds; wall time if the JVM does not support it. */
  def nanos: Long = if (isKnown) threads.getCurrentThreadCpuTime else System.nanoTime()
}

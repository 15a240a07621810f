package org.dynamicfilters.scan

import java.lang.management.ManagementFactory

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** A filter that tests the rows of batches.
  *
  * @param at
  *   position of its column in the spec
  * @param field
  *   position of the column in the batch
  */
final case class RowFilter(at: Int, field: Int, filter: ValueFilter)

/** Filters that test the rows of batches.
  *
  * @param either
  *   filters of which a row needs to pass one, evaluated after the others
  */
final case class RowFilters(all: Seq[RowFilter], either: Option[DisjunctionTest] = None) {

  /** Whether every row passes. */
  def passAll: Boolean = all.forall(_.filter == ValueFilter.All) && either.isEmpty
}

/** Finds the rows of batches that pass. Used by one task. The result is valid until the next call.
  *
  * @param record
  *   receives the effect and cost of each filter
  */
final class RowSelector(record: RowSelector.Record) {
  private var selection: Selection = _

  /** @param rows
    *   number of rows of the batch
    * @param vector
    *   by position in the required schema
    */
  def select(rows: Int, vector: Int => ColumnVector, filters: RowFilters): Selection = {
    if (selection == null || selection.rows.length < rows) selection = new Selection(rows)
    selection.all(rows)
    for (f <- filters.all if selection.count > 0) {
      val (before, from) = (selection.count.toLong, ThreadTime.nanos)
      f.filter.select(vector(f.field), selection)
      record(f.at, before, selection.count.toLong, ThreadTime.nanos - from)
    }
    filters.either.foreach(_.select(vector, selection))
    selection
  }
}

object RowSelector {
  trait Record {

    /** @param filter
      *   position among the scan's filters
      * @param nanos
      *   processor time
      */
    def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit
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

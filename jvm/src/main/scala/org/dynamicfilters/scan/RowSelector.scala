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
    * @param multiColumn
    *   tests of several columns, evaluated after the filters
    */
  def select(
      rows: Int,
      vector: Int => ColumnVector,
      filters: Seq[RowFilter],
      multiColumn: Seq[MultiColumnTest]
  ): Selection = {
    if (selection == null || selection.rows.length < rows) selection = new Selection(rows)
    selection.all(rows)
    filters.foreach(f => counted(f.at)(f.filter.select(vector(f.field), selection)))
    multiColumn.foreach(p => counted(p.at)(p.select(vector, selection)))
    selection
  }

  private def counted(at: Int)(test: => Unit): Unit = {
    val before = selection.count
    if (before > 0)
      if (at < 0) test
      else {
        val from = ThreadTime.nanos
        test
        record(at, before.toLong, selection.count.toLong, ThreadTime.nanos - from)
      }
  }
}

object RowSelector {
  trait Record {

    /** @param filter
      *   position among the scan's filters
      * @param before
      *   number of tested rows
      * @param after
      *   number of rows that passed
      * @param nanos
      *   processor time
      */
    def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit
  }
}

/** A test of rows by several columns, for one row group or batch. */
trait MultiColumnTest {

  /** Position among the scan's filters, tuples after columns; -1 if it is none of them. */
  def at: Int

  /** @param vector
    *   by position in the required schema
    */
  def select(vector: Int => ColumnVector, s: Selection): Unit

  /** Called once, after all rows were tested. */
  def finish(): Unit
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

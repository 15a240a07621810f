package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** A filter by which the rows of batches are tested.
  *
  * @param at
  *   its column among those of the spec
  * @param field
  *   position of the column in the batch
  */
final case class RowFilter(at: Int, field: Int, filter: ValueFilter)

/** Finds the rows of batches that pass. Belongs to one task; what it returns is valid until it is asked again.
  *
  * @param record
  *   takes what each filter did and cost
  */
final class RowSelector(record: RowSelector.Record) {
  private var selection: Selection = _

  /** @param rows
    *   of the batch
    * @param vector
    *   by position in the required schema
    * @param ofRows
    *   what looks at several columns; evaluated after the filters
    */
  def select(rows: Int, vector: Int => ColumnVector, filters: Seq[RowFilter], ofRows: Seq[RowPass]): Selection = {
    if (selection == null || selection.rows.length < rows) selection = new Selection(rows)
    selection.all(rows)
    filters.foreach(f => counted(f.at)(f.filter.select(vector(f.field), selection)))
    ofRows.foreach(p => counted(p.at)(p.select(vector, selection)))
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
      *   its place among the scan's filters
      * @param before
      *   rows that were tested by it
      * @param after
      *   how many of these passed
      * @param nanos
      *   processor time
      */
    def apply(filter: Int, before: Long, after: Long, nanos: Long): Unit
  }
}

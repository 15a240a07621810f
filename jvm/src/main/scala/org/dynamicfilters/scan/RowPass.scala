package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.Selection

/** What narrows the rows of a batch by several columns, in one row group. */
trait RowPass {

  /** Its place among the scan's filters, tuples after columns; -1 for none of its own. */
  def at: Int

  /** @param vector
    *   by position in the required schema
    */
  def select(vector: Int => ColumnVector, s: Selection): Unit

  /** The row group has been seen. */
  def judge(): Unit
}

package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** Finds the rows of batches that pass. Belongs to one task; what it returns is valid until it is asked again. */
final class RowSelector {
  private var selection: Selection = _

  /** @param rows
    *   of the batch
    * @param vector
    *   by position in the required schema
    * @param filters
    *   by position in the required schema
    * @param ofRows
    *   what looks at several columns; evaluated after the filters
    */
  def select(
      rows: Int,
      vector: Int => ColumnVector,
      filters: Seq[(Int, ValueFilter)],
      ofRows: Seq[RowPass]
  ): Selection = {
    if (selection == null || selection.rows.length < rows) selection = new Selection(rows)
    selection.all(rows)
    filters.foreach { case (field, filter) => if (selection.count > 0) filter.select(vector(field), selection) }
    ofRows.foreach(p => if (selection.count > 0) p.select(vector, selection))
    selection
  }
}

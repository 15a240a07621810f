package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** A field of a struct column, or of a struct in one. If a struct is NULL, so are its fields.
  *
  * Parquet files have statistics and page indexes for fields, so its filters leave out row groups and pages. First
  * passes do not read it. Below an exchange rows are tested by it one by one.
  *
  * @param path from the column downwards: position of the field in its struct, and number of the struct's fields
  */
final case class NestedField(path: Seq[(Int, Int)], dataType: DataType) {

  /** Narrows a selection of the column's rows to those whose field passes. */
  def select(filter: ValueFilter, column: ColumnVector, s: Selection): Unit = RowSelector.narrow(s) { r =>
    if (column.isNullAt(r)) filter.passes(null) else passesIn(filter, column.getStruct(r), path)
  }

  /** Whether the field of a row passes.
    *
    * @param ordinal of the column
    */
  def passes(filter: ValueFilter, row: InternalRow, ordinal: Int): Boolean =
    if (row.isNullAt(ordinal)) filter.passes(null)
    else passesIn(filter, row.getStruct(ordinal, path.head._2), path)

  private def passesIn(filter: ValueFilter, struct: InternalRow, path: Seq[(Int, Int)]): Boolean = {
    val at = path.head._1
    if (path.tail.isEmpty) filter.passesRow(struct, at)
    else if (struct.isNullAt(at)) filter.passes(null)
    else passesIn(filter, struct.getStruct(at, path.tail.head._2), path.tail)
  }
}

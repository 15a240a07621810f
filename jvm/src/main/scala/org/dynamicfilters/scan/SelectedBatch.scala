package org.dynamicfilters.scan

import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarBatch, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.Selection

/** The selected rows of a batch as a batch of their own. Nothing is copied: a row's number is looked up with every value. Valid
  * until the batch or the selection changes.
  */
final class SelectedBatch(batch: ColumnarBatch, selection: Selection) {
  private val view = new ColumnarBatch(
    Array.tabulate[ColumnVector](batch.numCols)(i => new SelectedVector(batch.column(i), selection.rows))
  )

  def isOf(otherBatch: ColumnarBatch, otherSelection: Selection): Boolean =
    (otherBatch eq batch) && (otherSelection eq selection)

  def get: ColumnarBatch = {
    view.setNumRows(selection.count)
    view
  }
}

/** A vector of some rows of another one, to which its memory belongs.
  *
  * @param rows
  *   by row of this vector, the row of the other one
  */
private final class SelectedVector(of: ColumnVector, rows: Array[Int]) extends ColumnVector(of.dataType) {
  // Spark reads structs, intervals and variants through the children, with the number of the row of this vector.
  private lazy val children = scala.collection.mutable.HashMap.empty[Int, ColumnVector]

  override def close(): Unit = ()

  // What Spark does with a batch when it has taken the rows: vectors of Arrow are closed then, Spark's own are not.
  override def closeIfFreeable(): Unit = of.closeIfFreeable()
  // At most as many as all rows have; callers want to know whether there are any.
  override def hasNull: Boolean = of.hasNull
  override def numNulls: Int = of.numNulls
  override def isNullAt(row: Int): Boolean = of.isNullAt(rows(row))
  override def getBoolean(row: Int): Boolean = of.getBoolean(rows(row))
  override def getByte(row: Int): Byte = of.getByte(rows(row))
  override def getShort(row: Int): Short = of.getShort(rows(row))
  override def getInt(row: Int): Int = of.getInt(rows(row))
  override def getLong(row: Int): Long = of.getLong(rows(row))
  override def getFloat(row: Int): Float = of.getFloat(rows(row))
  override def getDouble(row: Int): Double = of.getDouble(rows(row))
  override def getArray(row: Int): ColumnarArray = of.getArray(rows(row))
  override def getMap(row: Int): ColumnarMap = of.getMap(rows(row))
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = of.getDecimal(rows(row), precision, scale)
  override def getUTF8String(row: Int): UTF8String = of.getUTF8String(rows(row))
  override def getBinary(row: Int): Array[Byte] = of.getBinary(rows(row))
  override def getChild(ordinal: Int): ColumnVector =
    children.getOrElseUpdate(ordinal, new SelectedVector(of.getChild(ordinal), rows))
}

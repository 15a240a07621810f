package org.dynamicfilters.scan

import java.util.Arrays

import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarBatch, ColumnarMap}
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}
import org.dynamicfilters.filter.Selection

/** The selected rows of a batch as a batch. It is a view if [[SelectedVector]] forwards all of its types, and a copy
  * otherwise. A view is valid until the batch changes. Its row numbers are copied, because Spark's operators hold
  * several Arrow batches while the selection is reused (`ColumnarArrowEvalPythonEvaluatorFactory`, Spark 4.3).
  */
object SelectedBatch {
  def apply(batch: ColumnarBatch, selection: Selection): ColumnarBatch = {
    val rows = Arrays.copyOf(selection.rows, selection.count)
    val vectors = Array.tabulate(batch.numCols)(batch.column)
    if (vectors.forall(v => isForwarded(v.dataType)))
      new ColumnarBatch(vectors.map(new SelectedVector(_, rows): ColumnVector), rows.length)
    else {
      val copy = SparkAccess.copied(batch, rows)
      // The copy replaces the batch: frees the batch's Arrow vectors, as `ColumnarToRowExec` does.
      batch.closeIfFreeable()
      copy
    }
  }

  /** Whether [[SelectedVector]] forwards each getter with which Spark reads values of the type. Types that Spark 4.1
    * lacks, or reads by other getters than 4.2, are copied: nanosecond timestamps (4.3) and geometries.
    */
  private def isForwarded(dataType: DataType): Boolean = dataType match {
    case BooleanType | _: NumericType | _: StringType | BinaryType | NullType => true
    case DateType | TimestampType | TimestampNTZType | _: TimeType => true
    case _: YearMonthIntervalType | _: DayTimeIntervalType | CalendarIntervalType | VariantType => true
    // Their elements are read from the batch's own vectors.
    case _: ArrayType | _: MapType => true
    case s: StructType => s.forall(f => isForwarded(f.dataType))
    case u: UserDefinedType[_] => isForwarded(u.sqlType)
    case _ => false
  }
}

/** A view of some rows of another vector, which owns the memory.
  *
  * @param rows by row of this vector, the row of the other one
  */
private final class SelectedVector(of: ColumnVector, rows: Array[Int]) extends ColumnVector(of.dataType) {
  // Spark reads structs and variants through the children, with row numbers of this vector.
  private lazy val children = scala.collection.mutable.HashMap.empty[Int, ColumnVector]

  override def close(): Unit = ()

  // Spark calls this after it has consumed a batch: Arrow vectors are closed, Spark's own are not.
  override def closeIfFreeable(): Unit = of.closeIfFreeable()
  // Counts the nulls of all rows; callers only test whether there are any.
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
  // The default reads the children, which Arrow's interval vectors lack.
  override def getInterval(row: Int): CalendarInterval = of.getInterval(rows(row))
  override def getChild(ordinal: Int): ColumnVector =
    children.getOrElseUpdate(ordinal, new SelectedVector(of.getChild(ordinal), rows))
}

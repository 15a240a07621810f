package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.execution.RowToColumnConverter
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Copies rows of batches with Spark's `RowToColumnConverter`, which supports all types of the running Spark. */
object BatchAccess {

  /** A copy of the given rows that shares no memory with the batch. */
  def copied(batch: ColumnarBatch, rows: Array[Int]): ColumnarBatch = {
    val schema = StructType((0 until batch.numCols).map(i => StructField(s"_$i", batch.column(i).dataType)))
    val converter = new RowToColumnConverter(schema)
    val vectors = OnHeapColumnVector.allocateColumns(rows.length, schema)
    val writable: Array[WritableColumnVector] = vectors.map(v => v: WritableColumnVector)
    rows.foreach(r => converter.convert(batch.getRow(r), writable))
    new ColumnarBatch(vectors.map(v => v: ColumnVector), rows.length)
  }
}

package org.dynamicfilters.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Does what `FileSourceScanExec` does with the rows of its RDD, for an RDD that replaces it: converts rows and counts metrics. */
private[operators] object FileRows {

  def batches(scan: FileSourceScanExec, files: RDD[ColumnarBatch]): RDD[ColumnarBatch] = {
    val (rows, time) = (scan.longMetric("numOutputRows"), scan.longMetric("scanTime"))
    new MappedRDD(files, (_, it: Iterator[ColumnarBatch]) => new CountedBatches(it, rows, time))
  }

  def rows(scan: FileSourceScanExec, files: RDD[InternalRow]): RDD[InternalRow] = {
    val rows = scan.longMetric("numOutputRows")
    val schema = scan.schema
    new MappedRDD(
      files,
      { (index, it: Iterator[InternalRow]) =>
        // The vectorized reader does not return UnsafeRows.
        val toUnsafe = UnsafeProjection.create(schema)
        toUnsafe.initialize(index)
        it.map { row =>
          rows += 1
          row match {
            case unsafe: UnsafeRow => unsafe
            case other => toUnsafe(other)
          }
        }
      }
    )
  }
}

private final class CountedBatches(batches: Iterator[ColumnarBatch], rows: SQLMetric, time: SQLMetric)
    extends Iterator[ColumnarBatch] {
  override def hasNext: Boolean = {
    val start = System.nanoTime()
    val more = batches.hasNext
    time += (System.nanoTime() - start) / 1000000
    more
  }
  override def next(): ColumnarBatch = {
    val batch = batches.next()
    rows += batch.numRows
    batch
  }
}

package org.dynamicfilters.scan

import java.io.Closeable

import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads a few columns of row groups for [[FirstPass]], with Spark's own vectorized reader, on the main reader's
  * stream.
  *
  * Row groups have the same indexes as in the main reader.
  */
final class ProbeReader(main: ParquetReaderAccess, fields: StructType, start: Long, length: Long) extends Closeable {
  private val access = main.openNarrow(fields, start, length)
  access.waitForRowGroups()

  /** Calls `consume(batch, numbers)` for each batch of the row group until it returns false; `numbers(i)` is the row
    * number of the batch's i-th row within the row group.
    *
    * @param rows
    *   the rows to read; None for all
    * @param indexed
    *   see [[SelectedRows]]
    * @return
    *   whether the row group was read to its end. If not, this reader must not be used again: Spark's reader would
    *   continue with pages that are closed
    */
  def read(group: Int, rowCount: Long, rows: Option[RowRanges], indexed: Boolean)(
      consume: (ColumnarBatch, Array[Long]) => Boolean
  ): Boolean = {
    val store = rows match {
      case Some(r) => SelectedRows.read(access.fileReader, group, rowCount, r, indexed)
      case None => access.fileReader.readRowGroup(group)
    }
    if (store == null) return true
    try {
      val numbering = new RowNumbering(rows.getOrElse(RowRanges.all(rowCount)))
      access.give(store)
      var left = store.getRowCount
      var wantsMore = true
      while (left > 0 && wantsMore && access.reader.nextBatch()) {
        val batch = access.reader.resultBatch()
        wantsMore = consume(batch, numbering.next(batch.numRows))
        left -= batch.numRows
      }
      wantsMore || left == 0
    } finally
      store match {
        case c: AutoCloseable => c.close()
        case _ =>
      }
  }

  override def close(): Unit = access.reader.close()
}

/** Returns the row numbers of [[RowRanges]], batch by batch. */
private[scan] final class RowNumbering(rows: RowRanges) {
  private var range = 0
  private var next0 = if (rows.isEmpty) 0L else rows.start(0)
  private var numbers = new Array[Long](4096)

  /** @return
    *   an array whose first n elements are the next n row numbers; reused by the next call
    */
  def next(n: Int): Array[Long] = {
    if (numbers.length < n) numbers = new Array[Long](n)
    var i = 0
    while (i < n) {
      val take = math.min((n - i).toLong, rows.end(range) - next0 + 1).toInt
      var j = 0
      while (j < take) { numbers(i + j) = next0 + j; j += 1 }
      i += take
      next0 += take
      if (next0 > rows.end(range) && range + 1 < rows.ranges) { range += 1; next0 = rows.start(range) }
    }
    numbers
  }
}

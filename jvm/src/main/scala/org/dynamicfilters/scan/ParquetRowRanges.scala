package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.internal.column.columnindex.OffsetIndex
import org.apache.parquet.internal.filter2.columnindex.RowRanges

/** Parquet's own form of a [[RowSet]].
  *
  * `RowRanges` has no public constructor for arbitrary ranges; an offset index whose "pages" are the ranges makes them. The
  * class moves to another package after parquet 1.17, so this is the only file that names it.
  */
private[scan] object ParquetRowRanges {
  def apply(rows: RowSet, rowCount: Long): RowRanges = {
    val index = new OffsetIndex {
      override def getPageCount: Int = rows.ranges
      override def getOffset(page: Int): Long = 0L
      override def getCompressedPageSize(page: Int): Int = 0
      override def getFirstRowIndex(page: Int): Long = rows.start(page)
      override def getLastRowIndex(page: Int, total: Long): Long = rows.end(page)
    }
    RowRanges.create(rowCount, java.util.stream.IntStream.range(0, rows.ranges).iterator(), index)
  }

  /** @param ranges
    *   of Parquet's class
    */
  def rows(ranges: AnyRef): RowSet = {
    val rows = new RowSet.Builder
    ranges.asInstanceOf[RowRanges].getRanges.asScala.foreach(r => rows.add(r.from, r.to))
    rows.result()
  }
}

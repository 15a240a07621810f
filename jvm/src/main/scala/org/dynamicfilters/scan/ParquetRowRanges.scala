package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.internal.column.columnindex.OffsetIndex
import org.apache.parquet.internal.filter2.columnindex.{RowRanges => ParquetRanges}

/** Converts between [[RowRanges]] and Parquet's class of the same name.
  *
  * Parquet's `RowRanges` has no public constructor for arbitrary ranges; it is built from an offset index whose "pages"
  * are the ranges. The class moves to another package after parquet 1.17, so only this file names it.
  */
private[scan] object ParquetRowRanges {
  def apply(rows: RowRanges, rowCount: Long): ParquetRanges = {
    val index = new OffsetIndex {
      override def getPageCount: Int = rows.ranges
      override def getOffset(page: Int): Long = 0L
      override def getCompressedPageSize(page: Int): Int = 0
      override def getFirstRowIndex(page: Int): Long = rows.start(page)
      override def getLastRowIndex(page: Int, total: Long): Long = rows.end(page)
    }
    ParquetRanges.create(rowCount, java.util.stream.IntStream.range(0, rows.ranges).iterator(), index)
  }

  /** @param ranges
    *   an instance of Parquet's class
    */
  def rows(ranges: AnyRef): RowRanges = {
    val rows = new RowRanges.Builder
    ranges.asInstanceOf[ParquetRanges].getRanges.asScala.foreach(r => rows.add(r.from, r.to))
    rows.result()
  }
}

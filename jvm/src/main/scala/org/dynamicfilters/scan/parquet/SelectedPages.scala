package org.dynamicfilters.scan.parquet

import java.lang.reflect.Field
import java.util.{Optional, PrimitiveIterator, Queue => JQueue}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.parquet.column.ColumnDescriptor
import org.apache.parquet.column.page.{DataPage, DataPageV1, DataPageV2, DictionaryPage, PageReadStore, PageReader}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.internal.column.columnindex.OffsetIndex
import org.apache.parquet.internal.filter2.columnindex.{RowRanges => ParquetRanges}
import org.dynamicfilters.scan.RowRanges

/** Reads some rows of a row group.
  *
  * With page indexes, parquet-java reads only the pages with these rows. Without them (many writers omit them by
  * default) whole column chunks are read, but pages without a selected row are neither decompressed nor decoded. This
  * needs flat columns, in which a page has as many rows as values.
  */
private[scan] object SelectedRows {

  /** @param indexed whether all requested columns have an offset index. If not, all of them must be flat */
  def read(reader: ParquetFileReader, group: Int, rowCount: Long, rows: RowRanges, indexed: Boolean): PageReadStore =
    if (indexed || rows.count == rowCount) reader.readFilteredRowGroup(group, ParquetRowRanges(rows, rowCount))
    else if (rows.isEmpty) null
    else new SelectedPages(reader.readRowGroup(group), rows)
}

/** The selected rows of a row group that was read in full. */
private final class SelectedPages(all: PageReadStore, rows: RowRanges) extends PageReadStore with AutoCloseable {
  override def getPageReader(column: ColumnDescriptor): PageReader =
    new SelectedPageReader(all.getPageReader(column), rows)
  override def getRowCount: Long = rows.count
  override def getRowIndexOffset: Optional[java.lang.Long] = all.getRowIndexOffset
  override def getRowIndexes: Optional[PrimitiveIterator.OfLong] =
    Optional.of(ParquetRowRanges(rows, all.getRowCount).iterator())
  override def close(): Unit = Closing(all)
}

/** Returns the pages of a column chunk that have a selected row. */
private final class SelectedPageReader(pages: PageReader, rows: RowRanges) extends PageReader {
  private val compressed = SelectedPageReader.queueOf(pages)
  private var nextRow = 0L
  private var range = 0

  override def readDictionaryPage(): DictionaryPage = pages.readDictionaryPage()
  override def getTotalValueCount: Long = pages.getTotalValueCount

  override def readPage(): DataPage = {
    var result: DataPage = null
    var ended = false
    while (result == null && !ended) {
      val waiting = compressed.flatMap(q => Option(q.peek()))
      if (waiting.exists(p => !wanted(p.getValueCount))) {
        // Skips the page without decompressing it.
        nextRow += compressed.get.poll().getValueCount
      } else {
        val page = pages.readPage()
        if (page == null) ended = true
        else {
          val first = nextRow
          val keep = wanted(page.getValueCount)
          nextRow += page.getValueCount
          if (keep) result = numbered(page, first)
        }
      }
    }
    result
  }

  private def wanted(values: Int): Boolean = {
    while (range < rows.ranges && rows.end(range) < nextRow) range += 1
    range < rows.ranges && rows.start(range) < nextRow + values
  }

  /** The same page with its first row index, by which the vectorized reader skips rows. */
  private def numbered(page: DataPage, first: Long): DataPage = page match {
    case p: DataPageV1 =>
      new DataPageV1(
        p.getBytes,
        p.getValueCount,
        p.getUncompressedSize,
        first,
        p.getValueCount,
        p.getStatistics,
        p.getRlEncoding,
        p.getDlEncoding,
        p.getValueEncoding
      )
    case p: DataPageV2 =>
      DataPageV2.uncompressed(
        p.getRowCount,
        p.getNullCount,
        p.getValueCount,
        first,
        p.getRepetitionLevels,
        p.getDefinitionLevels,
        p.getDataEncoding,
        p.getData,
        p.getStatistics
      )
    case other => throw new IllegalStateException(s"unknown page ${other.getClass.getName}")
  }
}

private object SelectedPageReader {
  // A private field of parquet-java (1.16 and 1.17). If it cannot be accessed, all pages are decompressed.
  private val field = new ClassValue[Option[Field]] {
    override def computeValue(c: Class[_]): Option[Field] = Try {
      val f = c.getDeclaredField("compressedPages")
      f.setAccessible(true)
      f
    }.toOption
  }

  def queueOf(pages: PageReader): Option[JQueue[DataPage]] =
    field.get(pages.getClass).flatMap(f => Option(f.get(pages))).collect { case q: JQueue[_] =>
      q.asInstanceOf[JQueue[DataPage]]
    }
}

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

  /** @param ranges an instance of Parquet's class */
  def rows(ranges: AnyRef): RowRanges = {
    val rows = new RowRanges.Builder
    ranges.asInstanceOf[ParquetRanges].getRanges.asScala.foreach(r => rows.add(r.from, r.to))
    rows.result()
  }
}

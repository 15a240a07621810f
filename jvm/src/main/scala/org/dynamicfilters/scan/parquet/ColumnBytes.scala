package org.dynamicfilters.scan.parquet

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnPath}
import org.apache.spark.sql.execution.datasources.parquet.ParquetColumn
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.dynamicfilters.scan.{RowRanges, ScanCounter, ScanReport}

/** Compressed sizes of a scan's columns in the row groups of one file, and whether rows can be skipped in them. Columns
  * are positions in the required schema.
  */
final class ColumnBytes(access: ParquetReaderAccess) {
  private def leaves(c: ParquetColumn): Seq[ColumnPath] =
    c.descriptor.map(d => ColumnPath.get(d.getPath: _*)).toSeq ++ c.children.flatMap(leaves)
  private val paths: IndexedSeq[Seq[ColumnPath]] = access.columns.map(leaves).toIndexedSeq
  private val flat: Boolean = {
    def isFlat(c: ParquetColumn): Boolean = c.repetitionLevel == 0 && c.children.forall(isFlat)
    access.columns.forall(isFlat)
  }
  private val wanted: Set[ColumnPath] = paths.flatten.toSet
  private val fileSchema = access.fileReader.getFileMetaData.getSchema
  private var lastBlock: BlockMetaData = _
  private var lastSizes = Map.empty[ColumnPath, Long]
  private var lastIndexed = false
  private var lastSkippable = false

  private def sizes(block: BlockMetaData): Map[ColumnPath, Long] = {
    if (block ne lastBlock) {
      val chunks = block.getColumns.asScala.filter(c => wanted(c.getPath))
      lastSizes = chunks.map(c => c.getPath -> c.getTotalSize).toMap
      lastIndexed = chunks.nonEmpty && chunks.forall(_.getOffsetIndexReference != null)
      lastSkippable = chunks.forall(_.getEncodings.asScala.forall(!_.name.startsWith("DELTA")))
      lastBlock = block
    }
    lastSizes
  }

  def columnBytes(block: BlockMetaData, field: Int): Long = paths(field).map(sizes(block).getOrElse(_, 0L)).sum
  def requested(block: BlockMetaData): Long = sizes(block).valuesIterator.sum

  /** Bytes of the columns in all row groups of the split, including those that static predicates exclude. */
  def splitBytes: Long = access.fileReader.getFooter.getBlocks.asScala.iterator
    .map(_.getColumns.asScala.iterator.filter(c => wanted(c.getPath)).map(_.getTotalSize).sum)
    .sum

  /** Compressed bytes read for some rows of a row group: of the pages that hold these rows, and of dictionaries.
    *
    * Counted from metadata: parquet-java reads in other threads, which file system statistics of this thread miss.
    *
    * @param rows None for all rows
    */
  def read(reader: ParquetFileReader, group: Int, fields: Option[Seq[Int]], rows: Option[RowRanges]): Long = {
    var bytes = 0L
    eachPart(reader, group, fields, rows)((_, _, n) => bytes += n)
    bytes
  }

  /** Adds the bytes of [[read]] to the report: the first time as read, later as read again. */
  def count(
      report: ScanReport,
      reader: ParquetFileReader,
      group: Int,
      fields: Option[Seq[Int]],
      rows: Option[RowRanges]
  ): Unit = {
    if (group != seenGroup) {
      seen.clear()
      seenGroup = group
    }
    var fresh, again = 0L
    eachPart(reader, group, fields, rows) { (path, part, bytes) =>
      val before = seen.getOrElseUpdate(path, new Seen)
      if (part == Whole) {
        fresh += bytes - before.bytes
        again += before.bytes
        before.bytes = bytes
        before.whole = true
      } else if (before.whole || before.parts.get(part)) again += bytes
      else {
        fresh += bytes
        before.parts.set(part)
        before.bytes += bytes
      }
    }
    report.add(ScanCounter.BytesRead, fresh)
    report.add(ScanCounter.BytesReadAgain, again)
  }

  // What was read of a column in the current row group.
  private final class Seen {
    val parts = new java.util.BitSet
    var bytes = 0L
    var whole = false
  }
  private val seen = scala.collection.mutable.HashMap.empty[ColumnPath, Seen]
  private var seenGroup = -1

  // Numbers the parts of a column chunk: 0 is the dictionary, page i is i + 1.
  private val Whole = -1

  /** Calls `f` with column, part of the column chunk and bytes for each part to be read. */
  private def eachPart(reader: ParquetFileReader, group: Int, fields: Option[Seq[Int]], rows: Option[RowRanges])(
      f: (ColumnPath, Int, Long) => Unit
  ): Unit = {
    val block = reader.getRowGroups.get(group)
    val columns = fields.fold(wanted)(_.flatMap(paths(_)).toSet)
    rows match {
      case Some(r) if r.count < block.getRowCount && hasPageIndex(block) =>
        val store = reader.getColumnIndexStore(group)
        block.getColumns.asScala.iterator.filter(c => columns(c.getPath)).foreach { c =>
          val index = store.getOffsetIndex(c.getPath)
          if (c.getDictionaryPageOffset > 0) f(c.getPath, 0, index.getOffset(0) - c.getDictionaryPageOffset)
          var page, range = 0
          while (page < index.getPageCount && range < r.ranges) {
            val last = index.getLastRowIndex(page, block.getRowCount)
            while (range < r.ranges && r.end(range) < index.getFirstRowIndex(page)) range += 1
            if (range < r.ranges && r.start(range) <= last)
              f(c.getPath, page + 1, index.getCompressedPageSize(page).toLong)
            page += 1
          }
        }
      case _ => sizes(block).foreach { case (path, size) => if (columns(path)) f(path, Whole, size) }
    }
  }

  /** Whether [[SelectedRows]] can skip rows of the row group.
    *
    * Rows cannot be skipped in delta encodings: Spark's vectorized reader (seen on 4.2.0) loses its position in a
    * DELTA_BINARY_PACKED page when it skips rows, and returns wrong values.
    */
  def canSkipRows(block: BlockMetaData): Boolean = { sizes(block); lastSkippable && (flat || lastIndexed) }

  /** Whether rows can be skipped and every requested column has an offset index. */
  def hasPageIndex(block: BlockMetaData): Boolean = { sizes(block); lastSkippable && lastIndexed }

  /** Whether the file has the column. */
  def isStored(field: Int): Boolean = paths(field).exists(p => fileSchema.containsPath(p.toArray))
}

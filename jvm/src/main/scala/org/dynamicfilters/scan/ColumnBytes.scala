package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnPath}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName
import org.apache.spark.sql.execution.datasources.parquet.ParquetColumn
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess

/** Compressed sizes of a scan's columns in a row group, by position in the required schema. */
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

  def of(block: BlockMetaData, field: Int): Long = paths(field).map(sizes(block).getOrElse(_, 0L)).sum
  def requested(block: BlockMetaData): Long = sizes(block).valuesIterator.sum

  /** Bytes of the columns in all row groups of the split, those that static predicates exclude included. */
  def ofSplit: Long = access.fileReader.getFooter.getBlocks.asScala.iterator
    .map(_.getColumns.asScala.iterator.filter(c => wanted(c.getPath)).map(_.getTotalSize).sum)
    .sum

  /** Compressed bytes read for some rows of a row group: of the pages that hold them, dictionaries included.
    *
    * Counted from metadata, because parquet-java reads in other threads, which thread statistics do not see.
    *
    * @param rows
    *   None for all rows
    */
  def read(reader: ParquetFileReader, group: Int, fields: Option[Seq[Int]], rows: Option[RowSet]): Long = {
    var bytes = 0L
    eachPart(reader, group, fields, rows)((_, _, n) => bytes += n)
    bytes
  }

  /** Notes what is read of a row group, as [[read]]: once as read, and the rest of the times as read again. */
  def count(
      report: ScanReport,
      reader: ParquetFileReader,
      group: Int,
      fields: Option[Seq[Int]],
      rows: Option[RowSet]
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

  // What was read of the columns of the row group that is being read.
  private final class Seen {
    val parts = new java.util.BitSet
    var bytes = 0L
    var whole = false
  }
  private val seen = scala.collection.mutable.HashMap.empty[ColumnPath, Seen]
  private var seenGroup = -1

  // Part of a column chunk: the dictionary is the first, its pages come after it.
  private val Whole = -1

  /** Calls `f` with column, part of its chunk and bytes, for all that has to be read. */
  private def eachPart(reader: ParquetFileReader, group: Int, fields: Option[Seq[Int]], rows: Option[RowSet])(
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

  /** Whether rows of it can be skipped; see [[SelectedRows]].
    *
    * Not in delta encodings: Spark's vectorized reader (seen on 4.2.0) loses its place in a DELTA_BINARY_PACKED page when it
    * skips rows, and returns wrong values.
    */
  def canSkipRows(block: BlockMetaData): Boolean = { sizes(block); lastSkippable && (flat || lastIndexed) }

  /** Whether rows can be skipped and every requested column has an offset index. */
  def hasPageIndex(block: BlockMetaData): Boolean = { sizes(block); lastSkippable && lastIndexed }

  /** How many of the rows of the split's row groups are SQL NULL, from 0 to 1; None where footers do not say, or it is nested. */
  def nullShare(field: Int): Option[Double] = paths(field) match {
    case Seq(path) if flat =>
      val chunks = access.fileReader.getRowGroups.asScala.flatMap(_.getColumns.asScala.find(_.getPath == path))
      val known = chunks.flatMap(c => Option(c.getStatistics)).filter(_.isNumNullsSet)
      Option.when(known.nonEmpty && known.size == chunks.size)(
        known.map(_.getNumNulls).sum.toDouble / math.max(1L, chunks.map(_.getValueCount).sum)
      )
    case _ => None
  }

  /** Whether a row group may have so many different values of the column, by the size of its dictionary, which is seldom
    * compressed to less than half, or, of texts, to less than an eighth.
    */
  def mayHaveDistinct(block: BlockMetaData, field: Int, values: Long): Boolean = paths(field) match {
    case Seq(path) =>
      block.getColumns.asScala.find(_.getPath == path).forall { c =>
        val stats = c.getEncodingStats
        val bytes = c.getFirstDataPageOffset - c.getDictionaryPageOffset
        val width = c.getPrimitiveType.getPrimitiveTypeName match {
          case PrimitiveTypeName.INT64 | PrimitiveTypeName.DOUBLE => 8
          case PrimitiveTypeName.INT32 | PrimitiveTypeName.FLOAT => 4
          // Each has its length beside it.
          case _ => 1
        }
        stats == null || stats.hasNonDictionaryEncodedPages || c.getDictionaryPageOffset <= 0 || bytes <= 0 ||
        bytes * 2 / width >= values
      }
    case _ => true
  }

  /** Whether the file has the column. */
  def isStored(field: Int): Boolean = paths(field).exists(p => fileSchema.containsPath(p.toArray))
}

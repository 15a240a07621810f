package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnPath}
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

  /** Compressed bytes read for some rows of a row group: of the pages that hold them, dictionaries included.
    *
    * Counted from metadata, because parquet-java reads in other threads, which thread statistics do not see.
    *
    * @param rows
    *   None for all rows
    */
  def read(reader: ParquetFileReader, group: Int, fields: Option[Seq[Int]], rows: Option[RowSet]): Long = {
    val block = reader.getRowGroups.get(group)
    val columns = fields.fold(wanted)(_.flatMap(paths(_)).toSet)
    rows match {
      case Some(r) if r.count < block.getRowCount && hasPageIndex(block) =>
        val store = reader.getColumnIndexStore(group)
        block.getColumns.asScala.iterator
          .filter(c => columns(c.getPath))
          .map { c =>
            val index = store.getOffsetIndex(c.getPath)
            var bytes = if (c.getDictionaryPageOffset > 0) index.getOffset(0) - c.getDictionaryPageOffset else 0L
            var page, range = 0
            while (page < index.getPageCount && range < r.ranges) {
              val last = index.getLastRowIndex(page, block.getRowCount)
              while (range < r.ranges && r.end(range) < index.getFirstRowIndex(page)) range += 1
              if (range < r.ranges && r.start(range) <= last) bytes += index.getCompressedPageSize(page)
              page += 1
            }
            bytes
          }
          .sum
      case _ => sizes(block).iterator.collect { case (path, size) if columns(path) => size }.sum
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

  /** Whether the file has the column. */
  def isStored(field: Int): Boolean = paths(field).exists(p => fileSchema.containsPath(p.toArray))
}

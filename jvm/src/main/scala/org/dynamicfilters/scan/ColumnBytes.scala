package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnPath}
import org.apache.spark.sql.execution.datasources.parquet.ParquetColumn
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess

/** Compressed sizes of a scan's columns in a row group, by position in the required schema. */
final class ColumnBytes(access: ParquetReaderAccess) {
  private def leaves(c: ParquetColumn): Seq[ColumnPath] =
    c.descriptor.map(d => ColumnPath.get(d.getPath: _*)).toSeq ++ c.children.flatMap(leaves)
  private val paths: IndexedSeq[Seq[ColumnPath]] = access.columns.map(leaves).toIndexedSeq
  private val wanted: Set[ColumnPath] = paths.flatten.toSet
  private val fileSchema = access.fileReader.getFileMetaData.getSchema
  private var lastBlock: BlockMetaData = _
  private var lastSizes = Map.empty[ColumnPath, Long]
  private var lastIndexed = false

  private def sizes(block: BlockMetaData): Map[ColumnPath, Long] = {
    if (block ne lastBlock) {
      val chunks = block.getColumns.asScala.filter(c => wanted(c.getPath))
      lastSizes = chunks.map(c => c.getPath -> c.getTotalSize).toMap
      lastIndexed = chunks.nonEmpty && chunks.forall(_.getOffsetIndexReference != null)
      lastBlock = block
    }
    lastSizes
  }

  def of(block: BlockMetaData, field: Int): Long = paths(field).map(sizes(block).getOrElse(_, 0L)).sum
  def requested(block: BlockMetaData): Long = sizes(block).valuesIterator.sum

  /** Whether rows can be skipped in every requested column: without an offset index Parquet reads whole chunks. */
  def hasPageIndex(block: BlockMetaData): Boolean = { sizes(block); lastIndexed }

  /** Whether the file has the column. */
  def isStored(field: Int): Boolean = paths(field).exists(p => fileSchema.containsPath(p.toArray))
}

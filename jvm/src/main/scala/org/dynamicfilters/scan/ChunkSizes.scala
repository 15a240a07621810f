package org.dynamicfilters.scan

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.sql.types.{StructField, StructType}
import org.dynamicfilters.tables.DeltaTable

/** Compressed sizes of the columns in the row groups of a split: what a scan of some of them would read, without a look at the
  * file's footer.
  *
  * @param columns
  *   paths of the file's leaf columns, in lower case; at most [[ChunkSizes.MaxColumns]]
  * @param middles
  *   by row group, see [[LearnedRowGroup]]
  * @param bytes
  *   by row group and column
  */
final case class ChunkSizes(columns: Array[String], middles: Array[Long], bytes: Array[Array[Long]]) {

  /** How much room it takes, as a number of [[LearnedRowGroup]]s. */
  def weight: Int = middles.length * (columns.length / ChunkSizes.ColumnsPerRowGroup)

  /** Bytes of some columns in the row groups whose middle lies in [start, end). */
  def of(wanted: String => Boolean, start: Long, end: Long): Long = {
    val at = columns.indices.filter(i => wanted(columns(i)))
    middles.indices.iterator.filter(g => middles(g) >= start && middles(g) < end).map(g => at.map(bytes(g)(_)).sum).sum
  }
}

object ChunkSizes {

  /** Nothing is remembered of files with more: it would take more room than it is worth. */
  val MaxColumns = 256

  // A row group's bounds take about 100 bytes.
  private val ColumnsPerRowGroup = 12

  /** Of all columns in some row groups of a file; None of a file with very many columns, or without row groups. */
  def of(blocks: Seq[BlockMetaData]): Option[ChunkSizes] =
    blocks.headOption.map(_.getColumns.asScala).filter(_.size <= MaxColumns).map { columns =>
      ChunkSizes(
        columns.map(c => pathOf(c.getPath.toArray.toSeq)).toArray,
        blocks.map(LearnedRowGroup.middle).toArray,
        blocks.map(_.getColumns.asScala.map(_.getTotalSize).toArray).toArray
      )
    }

  def pathOf(parts: Seq[String]): String = parts.mkString(".").toLowerCase(Locale.ROOT)

  /** Which leaf columns of files a scan of this schema reads. Of lists and maps all, though Spark may leave out fields of the
    * structs in them.
    */
  def wanted(schema: StructType): String => Boolean = {
    def paths(parent: Seq[String], f: StructField): Seq[String] = {
      val name = DeltaTable.physicalName(f)
      f.dataType match {
        case s: StructType => s.fields.toSeq.flatMap(paths(parent :+ name, _))
        case _ => Seq(pathOf(parent :+ name))
      }
    }
    val read = schema.fields.iterator.flatMap(paths(Nil, _)).toSet
    // The leaf, or what it is in. Asked of each column of each split.
    leaf =>
      read(leaf) || Iterator
        .iterate(leaf.indexOf('.'))(at => leaf.indexOf('.', at + 1))
        .takeWhile(_ >= 0)
        .exists(at => read(leaf.substring(0, at)))
  }
}

package org.dynamicfilters.scan.statistics

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.sql.types.{StructField, StructType}
import org.dynamicfilters.tables.DeltaTable

/** Compressed sizes of the column chunks in the row groups of a split. Tells how many bytes a scan of some columns
  * would read, without reading the footer.
  *
  * @param columns paths of the file's leaf columns, in lower case; at most [[ChunkSizes.MaxColumns]]
  * @param middles by row group, see [[LearnedRowGroup.middle]]
  * @param bytes by row group and column
  */
final case class ChunkSizes(columns: Array[String], middles: Array[Long], bytes: Array[Array[Long]]) {

  /** Memory that this takes, in units of a [[LearnedRowGroup]]. */
  def weight: Int = middles.length * (columns.length / ChunkSizes.ColumnsPerRowGroup)

  /** Bytes of some columns in the row groups whose middle lies in [start, end). */
  def bytesOf(wanted: String => Boolean, start: Long, end: Long): Long = {
    val at = columns.indices.filter(i => wanted(columns(i)))
    middles.indices.iterator.filter(g => middles(g) >= start && middles(g) < end).map(g => at.map(bytes(g)(_)).sum).sum
  }
}

object ChunkSizes {

  /** Sizes of files with more columns are not kept, because they would take too much memory. */
  val MaxColumns = 256

  // A row group's bounds take about 100 bytes.
  private val ColumnsPerRowGroup = 12

  /** The sizes of all columns in some row groups of a file; None if there are no row groups or too many columns. */
  def fromBlocks(blocks: Seq[BlockMetaData]): Option[ChunkSizes] =
    blocks.headOption.map(_.getColumns.asScala).filter(_.size <= MaxColumns).map { columns =>
      ChunkSizes(
        columns.map(c => pathOf(c.getPath.toArray.toSeq)).toArray,
        blocks.map(LearnedRowGroup.middle).toArray,
        blocks.map(_.getColumns.asScala.map(_.getTotalSize).toArray).toArray
      )
    }

  def pathOf(parts: Seq[String]): String = parts.mkString(".").toLowerCase(Locale.ROOT)

  /** Whether a scan of this schema reads a leaf column. Counts all leaves of lists and maps, though Spark may skip
    * fields of structs in them.
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
    // Tests the leaf and all its parents. Called for each column of each split.
    leaf =>
      read(leaf) || Iterator
        .iterate(leaf.indexOf('.'))(at => leaf.indexOf('.', at + 1))
        .takeWhile(_ >= 0)
        .exists(at => read(leaf.substring(0, at)))
  }
}

package org.dynamicfilters.scan

import org.apache.spark.sql.connector.read.{InputPartition, Scan}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.FileScan
import org.apache.spark.sql.types.{BinaryType, DataType, StringType, StructField}
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** What is known of the splits of a DataSource V2 scan before they are read. */
trait SplitBounds {

  /** The parts of a split of the source; maybe the split as it is, of which nothing is known. */
  def parts(split: InputPartition): Seq[SourcePart]

  /** Of the scan as the query's own predicates left it, where that is known before its splits are made. */
  def files: Option[Long] = None
}

object SplitBounds {

  /** Whether anything is known of a column of the scan, without looking at its splits. */
  def has(scan: Scan, column: StructField): Boolean =
    KeyDomain.of(column.dataType).isRight && (scan match {
      case f: FileScan => f.readPartitionSchema.fieldNames.contains(column.name)
      case other => IcebergSplits.has(other, column)
    })

  /** Whether the source is known to order the values of the column as Spark does: numbers and times always, text and bytes
    * if the source is known.
    */
  def inSparksOrder(scan: Scan, column: StructField): Boolean = column.dataType match {
    case StringType | BinaryType => IcebergSplits.inSparksOrder(scan, column)
    case _ => true
  }

  /** @return
    *   None where nothing is known of any column of the spec
    */
  def of(scan: Scan, spec: ScanSpec): Option[SplitBounds] =
    if (!spec.columns.exists(c => has(scan, StructField(c.name, c.domain.dataType)))) None
    else
      scan match {
        case f: FileScan => Some(new FileSplits(f, spec))
        case other => IcebergSplits.of(other, spec)
      }

  /** A split of which nothing is known. */
  def unknown(split: InputPartition, spec: ScanSpec): SourcePart =
    new SourcePart(split, spec.columns.map(_ => ColumnBounds.unknown), 1, 0)
}

/** Files of Spark's own sources: each has one value in each partition column. */
private final class FileSplits(scan: FileScan, spec: ScanSpec) extends SplitBounds {
  private val ordinals = spec.columns.map(c => scan.readPartitionSchema.fieldNames.indexOf(c.name))
  private def is(ordinal: Int, dataType: DataType) = scan.readPartitionSchema(ordinal).dataType == dataType

  override def parts(split: InputPartition): Seq[SourcePart] = split match {
    case p: FilePartition =>
      p.files.toSeq.map { f =>
        val bounds = spec.columns.zip(ordinals).map { case (c, at) =>
          if (at < 0 || !is(at, c.domain.dataType)) ColumnBounds.unknown
          else ColumnBounds.exact(c.domain.fromRow(f.partitionValues, at))
        }
        new SourcePart(FilePartition(p.index, Array(f)), bounds, f.length, PathHash(f.urlEncodedPath))
      }
    case other => Seq(SplitBounds.unknown(other, spec))
  }
}

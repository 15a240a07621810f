package org.dynamicfilters.scan.sources

import org.apache.spark.sql.connector.read.{InputPartition, Scan}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.FileScan
import org.apache.spark.sql.types.{BinaryType, StringType, StructField}
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}
import org.dynamicfilters.scan.{PathHash, ScanColumn, ScanSpec}

/** Bounds of the splits of a DataSource V2 scan, known before they are read. Used by the planner and `SourceScan`.
  *
  * @param parts the parts of a planned split; the split itself with unknown bounds if it cannot be divided
  * @param files number of files after the query's own predicates, if known before the splits are planned
  */
final class SplitBounds(val parts: InputPartition => Seq[SourcePart], val files: Option[Long] = None)

object SplitBounds {

  /** Whether bounds of a column may be known. Does not plan the scan. */
  def has(scan: Scan, column: StructField): Boolean =
    KeyDomain.forType(column.dataType).isRight && (scan match {
      case f: FileScan => f.readPartitionSchema.fieldNames.contains(column.name)
      case other => IcebergSplits.has(other, column)
    })

  /** Whether the source orders the column's values as Spark does: always for numbers and times, for strings and binary
    * values only if the source is known to.
    */
  def inSparksOrder(scan: Scan, column: StructField): Boolean = column.dataType match {
    case StringType | BinaryType => IcebergSplits.inSparksOrder(scan, column)
    case _ => true
  }

  /** @return None if no bounds are known for any column of the spec
    */
  def forScan(scan: Scan, spec: ScanSpec): Option[SplitBounds] =
    if (!spec.columns.exists(c => has(scan, StructField(c.name, c.domain.dataType)))) None
    else
      scan match {
        case f: FileScan => Some(new SplitBounds(partsOfFiles(f, spec)))
        case other => IcebergSplits.forScan(other, spec)
      }

  /** A split with unknown bounds. */
  def unknown(split: InputPartition, spec: ScanSpec): SourcePart =
    new SourcePart(split, spec.columns.map(_ => ColumnBounds.unknown), 1, 0)

  /** Files of Spark's own sources, each with one value for each partition column. */
  private def partsOfFiles(scan: FileScan, spec: ScanSpec): InputPartition => Seq[SourcePart] = {
    val ordinals = spec.columns.map(c => scan.readPartitionSchema.fieldNames.indexOf(c.name))
    def isColumn(c: ScanColumn, at: Int) = at >= 0 && scan.readPartitionSchema(at).dataType == c.domain.dataType

    {
      case p: FilePartition =>
        p.files.toSeq.map { f =>
          val bounds = spec.columns.zip(ordinals).map { case (c, at) =>
            if (isColumn(c, at)) ColumnBounds.exact(c.domain.fromRow(f.partitionValues, at)) else ColumnBounds.unknown
          }
          new SourcePart(FilePartition(p.index, Array(f)), bounds, f.length, PathHash(f.urlEncodedPath))
        }
      case other => Seq(unknown(other, spec))
    }
  }
}

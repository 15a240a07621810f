package org.dynamicfilters.scan.sources

import org.apache.spark.sql.connector.read.{InputPartition, Scan}
import org.apache.spark.sql.types.{BinaryType, StringType, StructField}
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.scan.ScanSpec

/** Bounds of the splits of a DataSource V2 scan, known before they are read. Used by the planner and `SourceScan`.
  *
  * @param parts the parts of a planned split; the split itself with unknown bounds if it cannot be divided
  * @param files number of files after the query's own predicates
  */
final class SplitBounds(val parts: InputPartition => Seq[SourcePart], val files: Long)

object SplitBounds {

  /** Whether bounds of a column may be known. Does not plan the scan. */
  def has(scan: Scan, column: StructField): Boolean = IcebergSplits.has(scan, column)

  /** Whether the source orders the column's values as Spark does: always for numbers and times, for strings and binary
    * values only if the source is known to.
    */
  def inSparksOrder(scan: Scan, column: StructField): Boolean = column.dataType match {
    case StringType | BinaryType => IcebergSplits.inSparksOrder(scan, column)
    case _ => true
  }

  /** @return None if no bounds are known for any column of the spec */
  def forScan(scan: Scan, spec: ScanSpec): Option[SplitBounds] =
    if (spec.columns.exists(c => has(scan, StructField(c.name, c.domain.dataType)))) IcebergSplits.forScan(scan, spec)
    else None

  /** A split with unknown bounds. */
  def unknown(split: InputPartition, spec: ScanSpec): SourcePart =
    new SourcePart(split, spec.columns.map(_ => ColumnBounds.unknown), 1, 0)
}

package org.dynamicfilters.plan

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.WrappedFormat
import org.dynamicfilters.tables.{DeltaTable, FormatName}

/** The file formats that read Parquet with Spark's reader: Spark's own, and Delta's, which adds columns to the reader's output.
  * Delta's classes are compared by name, because they may be missing. [[ScanPlanner]] uses it.
  */
object ParquetFormats {

  /** Columns that Delta's format computes: whether a row is deleted, and its number in the file. */
  private val internal = "__delta_internal_"
  private val isDeleted = internal + "is_row_deleted"
  private val rowNumber = internal + "row_index"
  private val usesNumbers = "spark.databricks.delta.deletionVectors.useMetadataRowIndex"

  /** Whether scans of the format are filtered, or why not. */
  def supported(scan: FileSourceScanExec): Either[Reason, Unit] = WrappedFormat.unwrapped(scan) match {
    case p: ParquetFileFormat if p.getClass == classOf[ParquetFileFormat] =>
      // Checkpoints, from which Delta reads the state of its tables.
      Either.cond(!scan.relation.location.getClass.getName.startsWith(DeltaTable.Package), (), Reasons.DeltaLog)
    case p if isDelta(p) => Right(())
    case other => Left(Reasons.OtherFormat(FormatName(other)))
  }

  /** Delta's description of how a column is stored (see [[DeltaTable.notes]]); empty for all other scans. */
  def stored(scan: SparkPlan, column: String): String = scan match {
    case f: FileSourceScanExec if isDelta(WrappedFormat.unwrapped(f)) =>
      DeltaTable.notes(WrappedFormat.unwrapped(f), column)
    case _ => ""
  }

  private def isDelta(format: FileFormat): Boolean =
    format.getClass.getName == DeltaTable.Package + "DeltaParquetFileFormat"

  /** Whether the format computes the column instead of reading it from files. */
  def isInternal(column: String): Boolean =
    column == ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME || column.startsWith(internal)

  /** Whether Delta's format counts rows to find deleted ones, so that no row may be skipped. It does unless it uses the row
    * numbers of Parquet's reader, which needs both the session's setting and the format's.
    */
  def countsRows(format: ParquetFileFormat, session: SparkSession, required: StructType): Boolean = {
    def isOn(setting: => Any) = Try(setting.toString.toBoolean).getOrElse(false)
    required.fieldNames.exists(n => n == isDeleted || n == rowNumber) &&
    !(required.fieldNames.contains(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME) &&
      isOn(session.conf.get(usesNumbers, "true")) &&
      isOn(format.getClass.getMethod("optimizationsEnabled").invoke(format)))
  }
}

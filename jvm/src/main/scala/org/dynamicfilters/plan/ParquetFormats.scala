package org.dynamicfilters.plan

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.tables.{DeltaTable, FormatName}

/** The file formats whose Parquet files are read by Spark's reader: Spark's own, and Delta's, which adds columns to what that
  * reader returns. Known by name, because Delta need not be there.
  */
object ParquetFormats {

  /** Delta's columns that are no columns of the files: whether a row is deleted, and its number in the file. */
  private val internal = "__delta_internal_"
  private val isDeleted = internal + "is_row_deleted"
  private val rowNumber = internal + "row_index"
  private val usesNumbers = "spark.databricks.delta.deletionVectors.useMetadataRowIndex"

  /** The scan's format, or why it is not filtered. */
  def of(scan: FileSourceScanExec): Either[String, ParquetFileFormat] = scan.relation.fileFormat match {
    case p: ParquetFileFormat if p.getClass == classOf[ParquetFileFormat] =>
      // Checkpoints: what a table is, comes from there.
      Either.cond(
        !scan.relation.location.getClass.getName.startsWith(DeltaTable.Package),
        p,
        "it is a scan of Delta's own log"
      )
    case p: ParquetFileFormat if p.getClass.getName == DeltaTable.Package + "DeltaParquetFileFormat" => Right(p)
    case other => Left(s"files of format ${FormatName(other)} are not filtered yet")
  }

  /** What Delta's format notes of a column: a scan's schema has nothing of it. Empty for Spark's own. */
  def stored(format: FileFormat, column: String): String =
    if (format.getClass == classOf[ParquetFileFormat]) "" else DeltaTable.notes(format, column)

  /** Whether a column of the scan's required schema is made by the format, and not read from files. */
  def isInternal(column: String): Boolean =
    column == ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME || column.startsWith(internal)

  /** Whether the format counts rows to find deleted ones: it does where it was not told to use the numbers of Parquet's reader,
    * when it was made or by now, even if the query itself reads those.
    */
  def countsRows(format: ParquetFileFormat, session: SparkSession, required: StructType): Boolean = {
    def isOn(setting: => Any) = Try(setting.toString.toBoolean).getOrElse(false)
    required.fieldNames.exists(n => n == isDeleted || n == rowNumber) &&
    !(required.fieldNames.contains(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME) &&
      isOn(session.conf.get(usesNumbers, "true")) &&
      isOn(format.getClass.getMethod("optimizationsEnabled").invoke(format)))
  }
}

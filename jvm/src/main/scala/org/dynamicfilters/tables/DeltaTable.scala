package org.dynamicfilters.tables

import java.util.UUID

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.execution.datasources.FileIndex
import org.apache.spark.sql.functions.{col, from_json, lit}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StringType, StructField, StructType}
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** One version of a Delta table. Uses Delta's classes by reflection, because Delta may be missing.
  *
  * Data files of a Delta table never change, so the bounds in the log are facts (contract 9). They do not consider deletion
  * vectors, so they may be too wide.
  *
  * @param id the table's own and the version
  */
final class DeltaTable private (val id: (String, Long), schema: StructType, snapshot: AnyRef, index: FileIndex) {
  import DeltaTable._

  /** Number of data files of this version, if known. */
  def fileCount: Option[Long] = call(snapshot, "numOfFilesIfKnown") match {
    case Some(n: java.lang.Long) => Some(n)
    case _ => None
  }

  /** The table's column with all its metadata. A scan's schema lacks some of it. */
  def field(name: String): Option[StructField] = fieldOf(schema, name)

  /** Reads the bounds of columns from the log, by one Spark job.
    *
    * @param most files
    * @return by column, without columns whose bounds cannot be used. Empty if the table has more files
    */
  def read(fields: Seq[(StructField, KeyDomain)], most: Int): Map[StructField, LoggedBounds] = {
    val texts = fields.flatMap { case (field, domain) => StatisticsText.forColumn(field, domain).map(field -> _) }
    if (texts.isEmpty || fileCount.exists(_ > most)) Map.empty
    else {
      val rows = readRows(texts.map { case (field, _) => physicalName(field) }, most)
      if (rows.length > most) Map.empty
      else {
        val (whole, others) = rows.partition(_.getBoolean(2))
        texts.zipWithIndex.map { case ((field, text), i) =>
          def bounds(of: Array[Row]): Map[String, ColumnBounds] = of.iterator.map { r =>
            val at = Fixed + 3 * i
            def number(i: Int): Option[Long] = Option.when(!r.isNullAt(i))(r.getLong(i))
            val (min, max) = (Option(r.getString(at)), Option(r.getString(at + 1)))
            absolute(r.getString(0)) -> text.bounds(min, max, number(at + 2), number(1))
          }.toMap
          field -> LoggedBounds(bounds(whole), bounds(others))
        }.toMap
      }
    }
  }

  /** Rows of path, number of records and whether the file is whole, then least and greatest value and number of NULLs of each
    * column.
    */
  private def readRows(names: Seq[String], most: Int): Array[Row] = {
    val values = StructType(names.map(StructField(_, StringType)))
    val counts = StructType(names.map(StructField(_, LongType)))
    val schema = StructType(
      Seq(
        StructField("numRecords", LongType),
        StructField("minValues", values),
        StructField("maxValues", values),
        StructField("nullCount", counts)
      )
    )
    val all = snapshot.getClass.getMethod("allFiles").invoke(snapshot).asInstanceOf[Dataset[_]].toDF()
    val isWhole = if (all.columns.contains("deletionVector")) col("deletionVector").isNull else lit(false)
    val ofColumns = names.map(quoteIfNeeded).flatMap { name =>
      Seq("minValues", "maxValues", "nullCount").map(of => col(s"s.$of.$name"))
    }
    // Delta splits the log into 50 partitions by default. They are small, so a task reads several.
    val files = all
      .coalesce(all.sparkSession.sparkContext.defaultParallelism)
      .select(col("path"), from_json(col("stats"), schema).as("s"), isWhole.as("whole"))
      .select(Seq(col("path"), col("s.numRecords"), col("whole")) ++ ofColumns: _*)
    // The log does not tell the number, so it may be large.
    if (fileCount.isDefined) files.collect() else files.take(most + 1)
  }

  private def absolute(path: String): String =
    index.getClass.getMethod("absolutePath", classOf[String]).invoke(index, path).asInstanceOf[Path].toUri.toString
}

object DeltaTable {

  /** The package of Delta's classes. */
  val Package = "org.apache.spark.sql.delta."

  // Number of result columns before the bounds of the first column.
  private val Fixed = 3

  /** Delta's setting for data skipping by statistics. */
  private val StatisticsAreUsed = "spark.databricks.delta.stats.skipping"

  /** The file indexes of queries and commands. Not those of a change data feed, which reads deleted rows outside of the bounds. */
  private val indexes = Set(
    Package + "stats.PreparedDeltaFileIndex",
    Package + "files.TahoeBatchFileIndex"
  )

  /** The version that a scan reads.
    *
    * @return None for any other location, for an unknown Delta version, and if the session does not use statistics
    */
  def forIndex(location: FileIndex): Option[DeltaTable] =
    if (!indexes.contains(location.getClass.getName) || !SQLConf.get.getConfString(StatisticsAreUsed, "true").toBoolean)
      None
    else
      for {
        snapshot <- call(location, "preparedScan")
          .flatMap(call(_, "scannedSnapshot"))
          .orElse(call(location, "snapshot"))
        version <- call(snapshot, "version").collect { case v: java.lang.Long => v.longValue }
        metadata <- call(snapshot, "metadata")
        id <- call(metadata, "id").collect { case s: String => s }
        schema <- call(metadata, "schema").collect { case s: StructType => s }
      } yield new DeltaTable((id, version), schema, snapshot, location)

  private def call(on: AnyRef, method: String): Option[AnyRef] =
    Try(on.getClass.getMethod(method).invoke(on)).toOption.flatMap(Option(_)) match {
      case Some(o: Option[_]) => o.map(_.asInstanceOf[AnyRef])
      case other => other
    }

  /** The metadata of a column in a Delta format, which has its name in the files, and that of the fields of a struct.
    *
    * @return a random text if unknown, so that no learned statistics are found
    */
  def notes(format: AnyRef, column: String): String =
    call(format, "referenceSchema")
      .collect { case s: StructType => s }
      .flatMap(fieldOf(_, column))
      .fold(UUID.randomUUID.toString)(f => StructType(Seq(f)).json)

  private def fieldOf(schema: StructType, name: String): Option[StructField] =
    schema.fields.find(_.name.equalsIgnoreCase(name))

  /** The column's name in the files, which differs from its name with column mapping. */
  def physicalName(field: StructField): String = {
    val key = "delta.columnMapping.physicalName"
    if (field.metadata.contains(key)) field.metadata.getString(key) else field.name
  }
}

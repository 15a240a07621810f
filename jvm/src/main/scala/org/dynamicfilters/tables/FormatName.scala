package org.dynamicfilters.tables

import java.util.Locale

import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.v2.FileTable
import org.apache.spark.sql.sources.{BaseRelation, DataSourceRegister}

/** Names of file formats: `parquet`, `delta`, `orc`. */
object FormatName {

  /** The short name of the format. A subclass may have inherited its short name, so formats outside of Spark are called
    * by their class unless both names agree.
    */
  def apply(format: FileFormat): String = {
    val own = ofClass(format, "FileFormat")
    format match {
      case f if f.getClass.getName.startsWith(DeltaTable.Package) => "delta"
      case r: DataSourceRegister if own.equalsIgnoreCase(r.shortName()) || isSparks(format) => r.shortName()
      case _ => own
    }
  }

  /** The short name; without one, the name of the class. */
  def ofRelation(relation: BaseRelation): String = relation match {
    case r: DataSourceRegister => r.shortName()
    case other => ofClass(other, "Relation")
  }

  def ofTable(table: Table): String = table match {
    case f: FileTable => f.formatName.toLowerCase(Locale.ROOT)
    case other if other.getClass.getName.startsWith("org.apache.iceberg.") => "iceberg"
    case other => ofClass(other, "Table")
  }

  private def ofClass(of: AnyRef, suffix: String): String =
    of.getClass.getSimpleName.stripSuffix("$").stripSuffix(suffix).toLowerCase(Locale.ROOT)

  private def isSparks(format: FileFormat): Boolean =
    format.getClass.getName.matches("org\\.apache\\.spark\\.sql\\.(execution|hive|avro)\\..*")
}

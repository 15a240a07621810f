package org.dynamicfilters.plan

import java.util.Locale

import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.sources.DataSourceRegister
import org.dynamicfilters.tables.DeltaTable

/** What a file format is called: `parquet`, `delta`, `orc`. */
object FormatName {

  /** The name that a table is declared with, where the format has one of its own. A format made of another one keeps the
    * other's name, so those are called by their class.
    */
  def apply(format: FileFormat): String = {
    val ofClass = format.getClass.getSimpleName.stripSuffix("$").stripSuffix("FileFormat")
    format match {
      case f if f.getClass.getName.startsWith(DeltaTable.Package) => "delta"
      case r: DataSourceRegister if ofClass.equalsIgnoreCase(r.shortName()) || isSparks(format) => r.shortName()
      case _ => ofClass.toLowerCase(Locale.ROOT)
    }
  }

  private def isSparks(format: FileFormat): Boolean =
    format.getClass.getName.matches("org\\.apache\\.spark\\.sql\\.(execution|hive|avro)\\..*")
}

package org.dynamicfilters.scan.sources

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructField
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.scan.{ScanColumn, ScanSpec}
import org.dynamicfilters.state.{JoinRef, SubqueryRef, UserRef}

/** Converts filters to predicates for Spark's ORC reader, which skips stripes and row groups by its own statistics.
  * Used by [[OtherFileFormat]].
  *
  * Predicates may pass more rows than the filter. Below an exchange, the test of rows decides which rows the scan puts
  * out.
  */
object OrcPredicates {

  /** Larger sets become their range. */
  private val MostValues = 200L

  /** Whether the format's reader uses predicates. */
  def usesPredicates(format: FileFormat, hadoopConf: Configuration): Boolean =
    format.getClass == classOf[OrcFileFormat] && SQLConf.get.orcFilterPushDown &&
      // With this setting, a name in a predicate may belong to another column of the file.
      !hadoopConf.getBoolean("orc.force.positional.evolution", false)

  /** Whether filters on a column can become predicates: its values must be the same in the file, the statistics and the
    * row.
    */
  def supports(field: StructField): Boolean =
    // Not strings: ORC replaces bytes that are not UTF-8 in its bounds.
    field.name.matches("[A-Za-z0-9_]+") && KeyDomain.isInteger(field.dataType)

  /** Predicates of the filters that are complete now. On the driver. */
  def complete(spec: ScanSpec): Seq[Filter] = for {
    c <- spec.columns
    if c.ordinal >= 0 && !c.either && supports(spec.requiredSchema.fields(c.ordinal))
    filter <- complete(c).toSeq
    predicate <- fromFilter(c.name, filter)
  } yield predicate

  private def complete(c: ScanColumn): Option[ValueFilter] = c.ref match {
    case j: JoinRef => j.state.current.map(c.converted)
    case s: SubqueryRef => s.state.filter.map(c.converted)
    case u: UserRef => Some(c.converted(u.generation))
    case _ => None
  }

  private[scan] def fromFilter(column: String, filter: ValueFilter): Option[Filter] =
    V2Predicates.of(column, filter, inSparksOrder = true, MostValues).flatMap(SparkAccess.toV1)
}

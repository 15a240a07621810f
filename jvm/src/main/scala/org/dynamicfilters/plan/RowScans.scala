package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{FileSourceScanExec, RowDataSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.types.StructField
import org.dynamicfilters.operators.{RowFilteredScanExec, SourceScan}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.WrappedFormat
import org.dynamicfilters.scan.sources.{OrcPredicates, SplitBounds}
import org.dynamicfilters.state.Producer
import org.dynamicfilters.tables.FormatName

/** Decides which filters help scans whose reader does not evaluate them: file formats other than Parquet, DataSource V2, JDBC,
  * cached data. [[ScanPlanner]] uses it.
  *
  * If no split can be skipped, a filter helps only below an exchange: in the same stage, its producer drops the same rows.
  */
object RowScans {

  /** Matches such scans, filtered or not. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case f: FileSourceScanExec if !f.relation.fileFormat.isInstanceOf[ParquetFileFormat] => Some(plan)
    case _: RowDataSourceScanExec | _: BatchScanExec | _: RowFilteredScanExec => Some(plan)
    case CachedScans(_) => Some(plan)
    case _ => None
  }

  /** Whether a filter on the column helps an unfiltered scan, or why not.
    *
    * @param crossed whether an exchange lies between the producer and the scan
    */
  def helps(
      scan: SparkPlan,
      column: Attribute,
      producer: Producer.Value,
      crossed: Boolean
  ): Either[Reason, Unit] = scan match {
    case b: BatchScanExec if SparkAccess.isRewritten(b.table) => Left(Reasons.Rewritten)
    case CachedScans(s) => CachedScans.helps(s, column, producer, crossed)
    // Below an exchange, single rows are tested by a join's filter. Filters of users and subqueries are conditions above the scan.
    case s if hasBounds(s, column) || (producer == Producer.join && crossed) => Right(())
    case s if isBound(producer) => Left(noBounds(s))
    case s =>
      val by = if (producer == Producer.join) "the join" else "the condition above it"
      Either.cond(sourceUses(s, column), (), Reasons.RowsOnly(nameOf(s), by))
  }

  /** Whether the producer's filter is a bound that gets tighter while the scan runs. */
  def isBound(producer: Producer.Value): Boolean = producer == Producer.topk || producer == Producer.aggregate

  private def noBounds(scan: SparkPlan): Reason = Reasons.NoBounds(nameOf(scan))

  /** Whether bounds or partition values of the column are known for splits, so that splits can be skipped at any time. */
  private def hasBounds(scan: SparkPlan, column: Attribute): Boolean = scan match {
    case b: BatchScanExec =>
      SourceScan.mayChoose(b) && SplitBounds.has(b.scan, StructField(column.name, column.dataType))
    case f: FileSourceScanExec =>
      isKnown(WrappedFormat.unwrapped(f)) && ScanPlanner.position(f, column).exists(_._2 >= 0)
    case _ => false
  }

  /** Whether the source itself evaluates a filter on the column that is complete before the scan starts. */
  private def sourceUses(scan: SparkPlan, column: Attribute): Boolean = scan match {
    case b: BatchScanExec => SourceScan.runtimeFilterColumns(b).exists(b.conf.resolver(_, column.name))
    case f: FileSourceScanExec =>
      val conf = f.relation.sparkSession.sparkContext.hadoopConfiguration
      OrcPredicates.usesPredicates(WrappedFormat.unwrapped(f), conf) &&
      ScanPlanner.position(f, column).exists { case (at, _) =>
        at >= 0 && OrcPredicates.supports(f.requiredSchema.fields(at))
      }
    case _ => false
  }

  /** Spark's own formats. Other formats may do more with their files than read them. */
  def isKnown(format: FileFormat): Boolean = KnownFormats.contains(format.getClass.getName)

  private val KnownFormats = {
    val spark = "org.apache.spark.sql.execution.datasources"
    Set(
      s"$spark.orc.OrcFileFormat",
      s"$spark.csv.CSVFileFormat",
      s"$spark.json.JsonFileFormat",
      s"$spark.text.TextFileFormat",
      "org.apache.spark.sql.avro.AvroFileFormat"
    )
  }

  /** Why a retried task of the scan may read its rows in another order, if so. */
  def reordered(scan: SparkPlan): Option[Reason] = scan match {
    case b: BatchScanExec if b.output.exists(hasBounds(b, _)) => None
    case r: RowFilteredScanExec => reordered(r.child)
    case _: FileSourceScanExec => None
    case other => Some(noBounds(other))
  }

  /** The scan's name in reasons. */
  def nameOf(scan: SparkPlan): String = scan match {
    case f: FileSourceScanExec => s"a table of format ${FormatName(f.relation.fileFormat)}"
    case r: RowDataSourceScanExec => s"a relation of ${r.relation.getClass.getSimpleName.stripSuffix("$")}"
    case b: BatchScanExec =>
      b.scan match {
        case f: FileScan => s"a table of format ${f.getClass.getSimpleName.stripSuffix("Scan")}, read by DataSource V2,"
        case s if s.getClass.getName.startsWith("org.apache.iceberg.") => "an Iceberg table"
        case _ => s"the table ${b.table.name()} of DataSource V2"
      }
    case other => other.nodeName.trim
  }
}

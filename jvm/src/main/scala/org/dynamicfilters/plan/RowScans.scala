package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{FileSourceScanExec, RowDataSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{CachedScanExec, RowFilteredScanExec, SourceScan, SpecScan, Tagged}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan._
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.Producer
import org.dynamicfilters.tables.FormatName

/** Puts filters into scans whose reader does not evaluate them: file formats other than Parquet, DataSource V2, JDBC, cached
  * data. [[ScanPlanner]] uses it.
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

  /** Whether a filter on the column helps the scan, or why not.
    *
    * @param crossed whether an exchange lies between the producer and the scan
    */
  def accepts(
      scan: SparkPlan,
      column: Attribute,
      producer: Producer.Value,
      crossed: Boolean
  ): Either[Reason, Unit] = {
    val plain = unfiltered(scan)
    for {
      _ <- KeyDomain.forType(column.dataType)
      _ <- place(plain, column)
      _ <- readable(plain)
      _ <- plain match {
        case CachedScans(s) => CachedScans.accepts(s, column, producer, crossed)
        case s if hasBounds(s, column) || testsRows(producer, crossed) => Right(())
        case s if producer == Producer.topk || producer == Producer.aggregate => Left(noBounds(s))
        case s => Either.cond(sourceUses(s, column), (), rowsOnly(s, producer))
      }
    } yield ()
  }

  /** Whether the scan tests single rows. It does not for filters of users and subqueries, which are conditions above the scan. */
  private def testsRows(producer: Producer.Value, crossed: Boolean): Boolean = producer == Producer.join && crossed

  private def rowsOnly(scan: SparkPlan, producer: Producer.Value): Reason = {
    val by = if (producer == Producer.user || producer == Producer.subquery) "the condition above it" else "the join"
    Reasons.RowsOnly(nameOf(scan), by)
  }

  private def noBounds(scan: SparkPlan): Reason = Reasons.NoBounds(nameOf(scan))

  /** Whether bounds or partition values of the column are known for splits, so that splits can be skipped at any time. */
  private def hasBounds(scan: SparkPlan, column: Attribute): Boolean = scan match {
    case b: BatchScanExec =>
      SourceScan.mayChoose(b) && SplitBounds.has(b.scan, StructField(column.name, column.dataType))
    case f: FileSourceScanExec => isKnown(f) && place(f, column).exists(_._2 >= 0)
    case _ => false
  }

  /** Whether the source itself evaluates a filter on the column that is complete before the scan starts. */
  private def sourceUses(scan: SparkPlan, column: Attribute): Boolean = scan match {
    case b: BatchScanExec => SourceScan.runtimeFilterColumns(b).exists(b.conf.resolver(_, column.name))
    case f: FileSourceScanExec =>
      OrcPredicates.usesPredicates(formatOf(f), f.relation.sparkSession.sparkContext.hadoopConfiguration) &&
      place(f, column).exists { case (at, _) => at >= 0 && OrcPredicates.supports(f.requiredSchema.fields(at)) }
    case _ => false
  }

  /** Position of a column among those that are read, and among the partition columns; -1 for none. */
  private def place(scan: SparkPlan, column: Attribute): Either[Reason, (Int, Int)] = scan match {
    case f: FileSourceScanExec => ScanPlanner.position(f, column)
    case other =>
      val at = other.output.indexWhere(_.exprId == column.exprId)
      Either.cond(at >= 0, (at, -1), Reasons.NotInScan(column.name))
  }

  private def attribute(scan: SparkPlan, c: ScanColumn): Attribute = scan match {
    case f: FileSourceScanExec => ScanPlanner.columnOf(f, c)
    case other => other.output(c.ordinal)
  }

  /** Spark's own formats. Other formats may do more with their files than read them. */
  private def isKnown(scan: FileSourceScanExec): Boolean = KnownFormats.contains(formatOf(scan).getClass.getName)

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

  private def formatOf(scan: FileSourceScanExec): FileFormat = scan.relation.fileFormat match {
    case o: OtherFileFormat => o.inner
    case other => other
  }

  /** Why a retried task of the scan may read its rows in another order, if so. */
  def reordered(scan: SparkPlan): Option[Reason] = scan match {
    case b: BatchScanExec if b.output.exists(hasBounds(b, _)) => None
    case r: RowFilteredScanExec => reordered(r.child)
    case _: FileSourceScanExec => None
    case other => Some(noBounds(other))
  }

  private def readable(scan: SparkPlan): Either[Reason, Unit] = ScanHint.refusal(scan).flatMap { _ =>
    scan match {
      case f: FileSourceScanExec if CorruptFiles.areIgnored(f.relation.options) =>
        Left(Reasons.CorruptFilesIgnored)
      case b: BatchScanExec if SparkAccess.isRewritten(b.table) => Left(Reasons.Rewritten)
      case _ => Right(())
    }
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

  private def unfiltered(scan: SparkPlan): SparkPlan = scan match {
    case r: RowFilteredScanExec => r.child
    case c: CachedScanExec => c.child
    case other => other
  }

  /** As [[ScanPlanner.filtered]]. */
  def filtered(scan: SparkPlan, added: NewFilters, conf: SQLConf): Either[Reason, SparkPlan] = {
    val plain = unfiltered(scan)
    val before = columnsOf(scan)
    added
      .addedTo(before, attribute(plain, _)) { (column, ref) =>
        accepts(scan, column, ref.producer, added.place.crossesExchange).flatMap(_ => place(plain, column))
      }
      .map(all => if (all eq before) scan else wrap(scan, all, conf))
  }

  private def columnsOf(scan: SparkPlan): IndexedSeq[ScanColumn] = scan match {
    case r: SpecScan => r.spec.columns
    case _ => IndexedSeq.empty
  }

  private def wrap(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): SparkPlan = scan match {
    case s: SpecScan => withSpec(s, s.spec.withColumns(columns))
    case CachedScans(plain) =>
      Tagged(CachedScanExec(specOf(plain, columns, conf), plain), plain)
    case plain =>
      val spec = specOf(plain, columns, conf)
      Tagged(RowFilteredScanExec(spec, marked(plain, spec)), plain)
  }

  /** The scan with an [[OtherFileFormat]], if its own is a known one. */
  private def marked(scan: SparkPlan, spec: ScanSpec): SparkPlan = scan match {
    case f: FileSourceScanExec if isKnown(f) =>
      ScanPlanner.withFormat(f, new OtherFileFormat(formatOf(f), spec), f.relation.options + ScanPlanner.Marker)
    case other => other
  }

  /** The scan as Spark planned it. */
  def asPlanned(filtered: RowFilteredScanExec): SparkPlan = filtered.child match {
    case f: FileSourceScanExec => ScanPlanner.withFormat(f, formatOf(f), f.relation.options - ScanPlanner.Marker._1)
    case other => other
  }

  private def withSpec(scan: SpecScan, spec: ScanSpec): SparkPlan = scan match {
    case r: RowFilteredScanExec => Tagged(r.copy(spec = spec, child = marked(r.child, spec)), r)
    case c: CachedScanExec => Tagged(c.copy(spec = spec), c)
    case other => other
  }

  private def specOf(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      scan match {
        case f: FileSourceScanExec => f.requiredSchema
        case other => StructType(other.output.map(a => StructField(a.name, a.dataType, a.nullable)))
      },
      columns,
      predicates = Nil,
      options = "",
      lateMaterialization = false,
      if (ScanHint.on(scan).contains(ScanHint.Use)) 1.0 else Settings.get(conf, Settings.GiveUp)
    )
}

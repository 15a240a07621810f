package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{FileSourceScanExec, RowDataSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.dynamicfilters.TableAccess
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.dynamicfilters.filter.{KeyDomain, TuplePart}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{CachedScanExec, RowFilteredScanExec, SourceScan, SpecScan}
import org.dynamicfilters.scan._
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{FilterRef, JoinRef, Producer}

/** Puts filters into scans whose reader knows nothing of them: files of formats other than Parquet, DataSource V2, JDBC.
  *
  * Where no split can be left out, a filter is of use only below an exchange: in the same stage the operator that makes it
  * drops the same rows itself.
  */
object RowScans {

  /** Whether it is such a scan, filtered or not. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case f: FileSourceScanExec if !f.relation.fileFormat.isInstanceOf[ParquetFileFormat] => Some(plan)
    case _: RowDataSourceScanExec | _: BatchScanExec | _: RowFilteredScanExec => Some(plan)
    case CachedScans(_) => Some(plan)
    case _ => None
  }

  /** Whether a filter on the column is of any use in the scan, or why not.
    *
    * @param crossed
    *   whether an exchange lies between the producer and the scan
    */
  def accepts(
      scan: SparkPlan,
      column: Attribute,
      producer: Producer.Value,
      crossed: Boolean
  ): Either[String, Unit] = {
    val plain = unfiltered(scan)
    for {
      _ <- KeyDomain.of(column.dataType)
      _ <- Either.cond(plain.output.exists(_.exprId == column.exprId), (), s"the scan does not read ${column.name}")
      _ <- readable(plain)
      _ <- plain match {
        case CachedScans(s) => CachedScans.accepts(s, column, producer, crossed)
        case b: BatchScanExec if isBest(producer) => Either.cond(hasBounds(b, column), (), noBounds(b, producer))
        case b: BatchScanExec if hasBounds(b, column) || takes(b, column) || isTested(producer, crossed) => Right(())
        case s if isTested(producer, crossed) => Right(())
        case s => Left(if (isBest(producer)) noBounds(s, producer) else rowsOnly(s, producer))
      }
    } yield ()
  }

  /** A user's filter is a condition above the scan, so it is tested there. */
  private def isTested(producer: Producer.Value, crossed: Boolean): Boolean = producer == Producer.join && crossed

  private def isBest(producer: Producer.Value): Boolean = producer == Producer.topk || producer == Producer.aggregate

  private def rowsOnly(scan: SparkPlan, producer: Producer.Value): String = {
    val by = if (producer == Producer.user) "the condition above it" else "the join"
    s"${nameOf(scan)} can be filtered by rows only, and $by in the same stage does that"
  }

  private def noBounds(scan: SparkPlan, producer: Producer.Value): String =
    s"${nameOf(scan)} can be filtered by rows only, which is of no use to a $producer"

  private def hasBounds(scan: BatchScanExec, column: Attribute): Boolean =
    SourceScan.mayChoose(scan) && SplitBounds.has(scan.scan, StructField(column.name, column.dataType))

  private def takes(scan: BatchScanExec, column: Attribute): Boolean =
    SourceScan.taken(scan).exists(scan.conf.resolver(_, column.name))

  /** Why the rows of a scan may come in another order when its task is retried; None where they do not. */
  def reordered(scan: SparkPlan): Option[String] = scan match {
    case b: BatchScanExec if b.output.exists(hasBounds(b, _)) => None
    case r: RowFilteredScanExec => reordered(r.child)
    case _: FileSourceScanExec => None
    case other => Some(noBounds(other, Producer.topk))
  }

  private def readable(scan: SparkPlan): Either[String, Unit] = ScanHint.refusal(scan).flatMap { _ =>
    scan match {
      case f: FileSourceScanExec if new FileSourceOptions(f.relation.options).ignoreCorruptFiles =>
        Left(DynamicFileReader.SkipsCorrupt)
      case b: BatchScanExec if TableAccess.isRewritten(b.table) => Left("what is read of the table is written again")
      case _ => Right(())
    }
  }

  /** As reasons name it. */
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

  /** @return
    *   the filtered scan, or why the scan cannot be filtered by the column
    */
  def filtered(
      scan: SparkPlan,
      column: Attribute,
      ref: FilterRef,
      place: ScanPlace,
      conf: SQLConf
  ): Either[String, SparkPlan] = {
    val plain = unfiltered(scan)
    val before = columnsOf(scan)
    if (before.exists(c => (c.ref eq ref) && plain.output(c.ordinal).exprId == column.exprId)) Right(scan)
    else if (ref.topK.isDefined && before.exists(_.ref.topK.isDefined))
      Left("the scan is filtered by another TopK already")
    else
      for {
        _ <- accepts(scan, column, ref.producer, place.crossesExchange)
        domain <- KeyDomain.of(column.dataType)
      } yield {
        val at = plain.output.indexWhere(_.exprId == column.exprId)
        val added = ScanColumn(ref, domain, column.name, at, -1, place)
        wrap(scan, if (ref.topK.isDefined) added +: before else before :+ added, conf)
      }
  }

  /** The same by filters of which a row has to pass only one. */
  def filteredByEither(
      scan: SparkPlan,
      columns: Seq[Attribute],
      refs: Seq[FilterRef],
      place: ScanPlace,
      conf: SQLConf
  ): Either[String, SparkPlan] = {
    val plain = unfiltered(scan)
    val before = columnsOf(scan)
    if (refs.forall(r => before.exists(_.ref eq r))) Right(scan)
    else if (before.exists(_.ref.topK.isDefined)) Left("the scan is filtered by another TopK already")
    else
      Traverse(columns.zip(refs)) { case (column, ref) =>
        for {
          _ <- accepts(scan, column, ref.producer, place.crossesExchange)
          domain <- KeyDomain.of(column.dataType)
        } yield {
          val at = plain.output.indexWhere(_.exprId == column.exprId)
          ScanColumn(ref, domain, column.name, at, -1, place, either = true)
        }
      }.map(added => wrap(scan, before ++ added, conf))
  }

  /** @param scan
    *   filtered by each of the columns already
    */
  def filteredByTuples(
      scan: SpecScan,
      columns: Seq[Attribute],
      ref: JoinRef,
      place: ScanPlace
  ): Either[String, SparkPlan] =
    for {
      _ <- Either.cond(scan.supportsColumnar && place.crossesExchange, (), "tuples of keys are tested in batches only")
      found <- Traverse(columns)(c =>
        scan.spec.columns
          .find(x => scan.output(x.ordinal).exprId == c.exprId)
          .toRight(s"the scan is not filtered by ${c.name} alone")
      )
    } yield {
      val parts = found.zip(ref.nullsMatch).map { case (c, nulls) =>
        ScanTuplePart(TuplePart(c.domain, nulls), c.name, c.ordinal, -1)
      }
      val tuple = ScanTuple(ref, parts.toIndexedSeq, place)
      if (scan.spec.tuples.exists(t => (t.ref eq ref) && t.parts == tuple.parts)) scan
      else withSpec(scan, scan.spec.withTuples(scan.spec.tuples :+ tuple))
    }

  private def columnsOf(scan: SparkPlan): IndexedSeq[ScanColumn] = scan match {
    case r: SpecScan => r.spec.columns
    case _ => IndexedSeq.empty
  }

  private def wrap(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): SparkPlan = scan match {
    case s: SpecScan => withSpec(s, s.spec.withColumns(columns))
    case CachedScans(plain) =>
      val repeatable = CachedScanExec.scanOf(plain).exists(CachedScans.isRepeatable)
      tagged(CachedScanExec(specOf(plain, columns, conf), plain, repeatable), plain)
    case plain => tagged(RowFilteredScanExec(specOf(plain, columns, conf), plain), plain)
  }

  private def withSpec(scan: SpecScan, spec: ScanSpec): SparkPlan = scan match {
    case r: RowFilteredScanExec => tagged(r.copy(spec = spec), r)
    case c: CachedScanExec => tagged(c.copy(spec = spec), c)
    case other => other
  }

  private def specOf(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      StructType(scan.output.map(a => StructField(a.name, a.dataType, a.nullable))),
      columns,
      IndexedSeq.empty,
      predicates = Nil,
      decoding = "",
      lateMaterialization = false,
      if (ScanHint.on(scan).contains(ScanHint.Use)) 1.0 else Settings.get(conf, Settings.GiveUp)
    )

  /** Adaptive execution asserts that nodes have a logical link. */
  private def tagged(to: SparkPlan, from: SparkPlan): SparkPlan = {
    to.copyTagsFrom(from)
    to
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, BoundReference, Expression, Like, PlanExpression, Unevaluable, UserDefinedExpression
}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{ArrayType, MapType, StructType}
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{DynamicFilterScanExec, Tagged, WithArguments}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan._
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{FilterRef, Producer}

/** Filters that are to be put into a scan: one, or several joined by OR.
  *
  * @param refs by column; several filters have one producer
  * @param key the filter's key, if it is computed from the only column
  */
private[plan] final case class NewFilters(
    columns: Seq[Attribute],
    refs: Seq[FilterRef],
    place: ScanPlace,
    key: Option[DerivedKey]
) {

  /** The filters of a scan, with these added.
    *
    * @param position of a column among those that are read, and among the partition columns; or why it cannot be
    *   filtered
    * @return `before` itself if the scan has these filters already; or why they cannot be added
    */
  def addedTo(before: IndexedSeq[ScanColumn], attribute: ScanColumn => Attribute, stored: String => String = _ => "")(
      position: (Attribute, FilterRef) => Either[Reason, (Int, Int)]
  ): Either[Reason, IndexedSeq[ScanColumn]] = {
    val wanted = columns.zip(refs)
    val isTopK = refs.head.topK.isDefined
    def isThere(column: Attribute, ref: FilterRef) =
      before.exists(c => (c.ref eq ref) && attribute(c).exprId == column.exprId && c.key == key)
    if (wanted.forall { case (column, ref) => isThere(column, ref) }) Right(before)
    else if (isTopK && before.exists(_.ref.topK.isDefined)) Left(Reasons.OtherTopK)
    else
      Traverse(wanted) { case (column, ref) =>
        val field = key.flatMap(_.field)
        for (at <- position(column, ref); domain <- KeyDomain.forType(field.fold(column.dataType)(_.dataType)))
          yield ScanColumn(
            ref,
            domain,
            if (field.isEmpty) column.name else key.get.text,
            at._1,
            at._2,
            place,
            either = wanted.size > 1,
            stored(column.name),
            key
          )
      }.map(added => if (isTopK && added.size == 1) added.toIndexedSeq ++ before else before ++ added)
  }
}

/** Puts filters into scans: Parquet scans here, all others by [[RowScans]] and [[ConsumerScans]]. The planners of all producers
  * use it.
  */
object ScanPlanner {

  /** Option that makes a filtered scan's relation differ from the original. Without it they are equal, because all Parquet formats
    * are, and Spark's tree transformations drop changes between equal nodes.
    */
  private[plan] val Marker = "dynamicfilters.marker" -> "true"

  /** Whether it is a scan that may be filtered, or is. */
  def isScan(plan: SparkPlan): Boolean = plan match {
    case _: FileSourceScanExec | _: DynamicFilterScanExec | RowScans(_) | ConsumerScans(_) => true
    case _ => false
  }

  /** Filters a scan by one column, or by several filters joined by OR.
    *
    * @param refs by column; several filters have one producer
    */
  def filtered(
      at: PushDown.Reached,
      refs: Seq[FilterRef],
      conf: SQLConf,
      waits: Wait = Wait.No
  ): Either[Reason, SparkPlan] =
    for {
      _ <- isBatch(at.scan)
      key <- keyOf(at, refs.head.producer)
      added = NewFilters(at.columns, refs, ScanPlace(at.crossed, waits), key)
      done <- at.scan match {
        case RowScans(s) => RowScans.filtered(s, added, conf)
        case s @ ConsumerScans(_) => ConsumerScans.filtered(s, added)
        case s: FileSourceScanExec =>
          for (_ <- readable(s); columns <- columnsOf(s, IndexedSeq.empty, added))
            yield wrap(s, specOf(s, columns, conf))
        case d: DynamicFilterScanExec =>
          val plain = d.child.asInstanceOf[FileSourceScanExec]
          columnsOf(plain, d.spec.columns, added).map { all =>
            if (all eq d.spec.columns) d else wrap(plain, d.spec.withColumns(all), d.keepsPartitions, d.values)
          }
        case other => Left(noFileScan(other))
      }
    } yield done

  private def isParquet(scan: SparkPlan): Boolean = scan match {
    case RowScans(_) | ConsumerScans(_) => false
    case _ => true
  }

  // A stream counts the rows of its sources by their scans (`ProgressReporter`).
  private def isBatch(scan: SparkPlan): Either[Reason, Unit] =
    Either.cond(!scan.logicalLink.exists(_.isStreaming), (), Reasons.StreamSource)

  private def keyOf(at: PushDown.Reached, producer: Producer.Value): Either[Reason, Option[DerivedKey]] =
    at.computed match {
      case None => Right(None)
      case Some(e) =>
        val text = at.shownNames.head
        val what = producer match {
          case Producer.join => "the join key"
          case Producer.subquery | Producer.user => "the column"
          case Producer.aggregate => "the aggregated column"
          case _ => "the sort key"
        }
        MonotoneExpressions
          .key(e, at.columns.head.dataType, text)
          .filter(_.field.isEmpty || isParquet(at.scan))
          .map(Some(_))
          .toRight(Reasons.Computed(what, text))
    }

  private def columnsOf(scan: FileSourceScanExec, before: IndexedSeq[ScanColumn], added: NewFilters) =
    added.addedTo(before, columnOf(scan, _), ParquetFormats.stored(scan.relation.fileFormat, _)) { (column, ref) =>
      // For a TopK, row groups and rows are read best first, which changes their order.
      if (ref.topK.isDefined && scan.outputOrdering.nonEmpty) Left(Reasons.ScanInOrder) else position(scan, column)
    }

  private[plan] def noFileScan(plan: SparkPlan): Reason = Reasons.NoFileScan(plan.nodeName.trim)

  /** Whether the scan can be filtered by a join on the column, or why not. */
  def accepts(at: PushDown.Reached): Either[Reason, Unit] =
    for {
      _ <- isBatch(at.scan)
      key <- keyOf(at, Producer.join)
      column = at.columns.head
      field = key.flatMap(_.field)
      hasColumn = (s: FileSourceScanExec) =>
        ordinal(s, column).flatMap(_ => KeyDomain.forType(field.fold(column.dataType)(_.dataType))).map(_ => ())
      _ <- at.scan match {
        case RowScans(s) => RowScans.accepts(s, column, Producer.join, at.crossed)
        case s @ ConsumerScans(_) => ConsumerScans.accepts(s, column)
        case d: DynamicFilterScanExec => hasColumn(d.child.asInstanceOf[FileSourceScanExec])
        case s: FileSourceScanExec => readable(s).flatMap(_ => hasColumn(s))
        case other => Left(noFileScan(other))
      }
    } yield ()

  private def readable(scan: FileSourceScanExec): Either[Reason, Unit] =
    ScanHint.refusal(scan).flatMap { _ =>
      ParquetFormats.supported(scan).flatMap { _ =>
        Either.cond(!CorruptFiles.areIgnored(scan.relation.options), (), Reasons.CorruptFilesIgnored)
      }
    }

  private[plan] def columnOf(scan: FileSourceScanExec, c: ScanColumn): Attribute =
    scan.output(if (c.isPartitionColumn) scan.requiredSchema.length + c.partitionOrdinal else c.ordinal)

  private def specOf(scan: FileSourceScanExec, columns: IndexedSeq[ScanColumn], conf: SQLConf): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      scan.requiredSchema,
      columns,
      EarlyPredicates.inScan(scan),
      optionsOf(scan.relation),
      Settings.get(conf, Settings.LateMaterialization),
      if (ScanHint.on(scan).contains(ScanHint.Use)) 1.0 else Settings.get(conf, Settings.GiveUp)
    )

  /** Position of a column among those that are read, and among the partition columns; -1 for none. */
  private[plan] def position(scan: FileSourceScanExec, column: Attribute): Either[Reason, (Int, Int)] =
    ordinal(scan, column).map { at =>
      val data = scan.requiredSchema.length
      if (at < data) (at, -1) else (-1, at - data)
    }

  /** Position of a column in the scan's output, which is the required schema and then the partition columns. */
  private def ordinal(scan: FileSourceScanExec, column: Attribute): Either[Reason, Int] = {
    val data = scan.requiredSchema.length
    val at = scan.output.indexWhere(_.exprId == column.exprId)
    if (at < 0) Left(Reasons.NotInScan(column.name))
    else if (at >= data + scan.relation.partitionSchema.length) Left(Reasons.FileMetadata(column.name))
    else if (at < data && ParquetFormats.isInternal(column.name)) Left(Reasons.RowIndex(column.name))
    else Right(at)
  }

  private def wrap(
      scan: FileSourceScanExec,
      spec: ScanSpec,
      keepsPartitions: Boolean = false,
      values: Seq[Seq[Expression]] = Nil
  ): SparkPlan = {
    val relation = scan.relation
    val format = relation.fileFormat match {
      case d: DynamicParquetFormat => d.plain
      case p => p.asInstanceOf[ParquetFileFormat]
    }
    val marked = relation.copy(
      fileFormat = new DynamicParquetFormat(spec, format, ParquetFormats.countsRows),
      options = relation.options + Marker
    )(relation.sparkSession)
    Tagged(DynamicFilterScanExec(spec, withRelation(scan, marked), keepsPartitions, values), scan)
  }

  /** The scan as Spark planned it. */
  def unfiltered(filtered: DynamicFilterScanExec): SparkPlan = {
    val scan = filtered.child.asInstanceOf[FileSourceScanExec]
    withFormat(
      scan,
      scan.relation.fileFormat.asInstanceOf[DynamicParquetFormat].plain,
      scan.relation.options - Marker._1
    )
  }

  private[plan] def withFormat(
      scan: FileSourceScanExec,
      format: FileFormat,
      options: Map[String, String]
  ): SparkPlan = {
    val relation = scan.relation
    Tagged(withRelation(scan, relation.copy(fileFormat = format, options = options)(relation.sparkSession)), scan)
  }

  private def withRelation(scan: FileSourceScanExec, relation: HadoopFsRelation): SparkPlan =
    WithArguments[SparkPlan](scan) { case _: HadoopFsRelation => relation }

  private val ownOptions = Set(Marker._1, ScanHint.OptionKey)

  private def optionsOf(relation: HadoopFsRelation): String =
    relation.options.filterNot(o => ownOptions.contains(o._1)).toSeq.sorted.map(_.toString).mkString(";")
}

/** The query's own predicates that late materialization may evaluate with the filters: deterministic, without subqueries, on
  * flat columns of the files, and never failing ([[NeverFails]]).
  *
  * Predicates that may fail, or take very long (regular expressions, LIKE), are left out: in stock Spark, other predicates may
  * drop the rows before.
  */
private[plan] object EarlyPredicates {

  /** Bound to the scan's required schema, in Spark's order. */
  def inScan(scan: FileSourceScanExec): Seq[Expression] = {
    val position = scan.output.take(scan.requiredSchema.length).map(_.exprId).zipWithIndex.toMap
    def isEarly(p: Expression): Boolean =
      p.deterministic && p.references.nonEmpty && !UserPlanner.isInScan(p) && NeverFails(p) &&
        p.references.forall(r => position.contains(r.exprId) && isFlat(r) && !ParquetFormats.isInternal(r.name)) &&
        !p.exists {
          case _: AttributeReference => false
          case _: PlanExpression[_] | _: UserDefinedExpression | _: Unevaluable | _: Like => true
          case _ => false
        }
    scan.dataFilters
      .filter(isEarly)
      .map(_.transform { case a: AttributeReference => BoundReference(position(a.exprId), a.dataType, a.nullable) })
  }

  private def isFlat(a: Attribute): Boolean = a.dataType match {
    case _: StructType | _: ArrayType | _: MapType => false
    case _ => true
  }
}

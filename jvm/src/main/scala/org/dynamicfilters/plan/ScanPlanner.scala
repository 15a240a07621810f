package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, BoundReference, Expression, PlanExpression, Unevaluable, UserDefinedExpression
}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{ArrayType, MapType, StructType}
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{
  CachedScanExec, DynamicFilterScanExec, RowFilteredScanExec, SpecScan, Tagged, WithArguments
}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.parquet.{CorruptFiles, DynamicParquetFormat}
import org.dynamicfilters.scan.sources.{ApiFilter, OtherFileFormat}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{FilterRef, Producer}

/** Puts filters into scans. [[RowScans]] and [[ConsumerScans]] know what scans of other kinds than Parquet can use. The planners of
  * all producers use it.
  */
object ScanPlanner {

  /** Option that makes a filtered scan's relation differ from the original. Without it they are equal, because all Parquet formats
    * are, and Spark's tree transformations drop changes between equal nodes.
    */
  private val Marker = "dynamicfilters.marker" -> "true"

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
    keyOf(at, refs.head.producer).flatMap { key =>
      val before = at.scan match {
        case s: SpecScan => s.spec.columns
        case _ => IndexedSeq.empty
      }
      def isThere(column: Attribute, ref: FilterRef) = before.exists { c =>
        (c.ref eq ref) && columnOf(plain(at.scan), c).exprId == column.exprId && c.key == key
      }
      if (at.columns.zip(refs).forall { case (column, ref) => isThere(column, ref) }) Right(at.scan)
      else
        permitted(at, refs.head.producer, key).flatMap { _ =>
          val place = ScanPlace(at.crossed, waits)
          at.scan match {
            case s @ ConsumerScans(_) =>
              val column = at.columns.head
              ConsumerScans.filtered(s, new ApiFilter(refs.head, column, KeyDomain.known(column.dataType), place))
            case s => added(before, at, refs, place, key).map(withColumns(s, _, conf))
          }
        }
    }

  /** Whether a filter of a producer helps the scan, or why not. */
  def accepts(at: PushDown.Reached, producer: Producer.Value): Either[Reason, Unit] =
    keyOf(at, producer).flatMap(permitted(at, producer, _))

  private def permitted(at: PushDown.Reached, producer: Producer.Value, key: Option[DerivedKey]): Either[Reason, Unit] =
    for {
      // A stream counts the rows of its sources by their scans (`ProgressReporter`).
      _ <- Either.cond(!at.scan.logicalLink.exists(_.isStreaming), (), Reasons.StreamSource)
      _ <- Either.cond(!ScanHint.on(at.scan).contains(ScanHint.Avoid), (), Reasons.Hinted)
      _ <- Traverse(at.columns) { column =>
        for {
          _ <- domainOf(column, key)
          _ <- at.scan match {
            // Custom scans cannot join filters by OR.
            case ConsumerScans(c) =>
              Either.cond(at.columns.size == 1 && c.takesFilterOn(column), (), Reasons.TakesNone(column.name))
            case s => position(plain(s), column).flatMap(_ => helps(plain(s), column, producer, at.crossed))
          }
        } yield ()
      }
    } yield ()

  private def helps(
      scan: SparkPlan,
      column: Attribute,
      producer: Producer.Value,
      crossed: Boolean
  ): Either[Reason, Unit] = scan match {
    case f: FileSourceScanExec if CorruptFiles.areIgnored(f.relation.options) => Left(Reasons.CorruptFilesIgnored)
    case RowScans(s) => RowScans.helps(s, column, producer, crossed)
    // For a TopK, row groups and rows are read best first, which changes their order.
    case f: FileSourceScanExec if RowScans.isBound(producer) && f.outputOrdering.nonEmpty => Left(Reasons.ScanInOrder)
    case f: FileSourceScanExec => ParquetFormats.supported(f)
    case other => Left(PushDown.stops(other))
  }

  /** The scan without filters. A file scan keeps the format that knows them. */
  private def plain(scan: SparkPlan): SparkPlan = scan match {
    case s: SpecScan => s.child
    case other => other
  }

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
          .filter(key =>
            at.scan match {
              case ConsumerScans(_) => false
              case RowScans(_) => key.field.isEmpty
              case _ => true
            }
          )
          .map(Some(_))
          .toRight(Reasons.Computed(what, text))
    }

  private def domainOf(column: Attribute, key: Option[DerivedKey]): Either[Reason, KeyDomain] =
    KeyDomain.forType(key.flatMap(_.field).fold(column.dataType)(_.dataType))

  /** The filters of a scan, with new ones added; or why they cannot be added. */
  private def added(
      before: IndexedSeq[ScanColumn],
      at: PushDown.Reached,
      refs: Seq[FilterRef],
      place: ScanPlace,
      key: Option[DerivedKey]
  ): Either[Reason, IndexedSeq[ScanColumn]] = {
    val scan = plain(at.scan)
    val wanted = at.columns.zip(refs)
    val isTopK = refs.head.topK.isDefined
    if (isTopK && before.exists(_.ref.topK.isDefined)) Left(Reasons.OtherTopK)
    else
      Traverse(wanted) { case (column, ref) =>
        for (found <- position(scan, column); domain <- domainOf(column, key))
          yield ScanColumn(
            ref,
            domain,
            if (key.exists(_.field.isDefined)) key.get.text else column.name,
            ordinal = found._1,
            partitionOrdinal = found._2,
            place,
            either = wanted.size > 1,
            ParquetFormats.stored(scan, column.name),
            key
          )
      }.map(added => if (isTopK && added.size == 1) added.toIndexedSeq ++ before else before ++ added)
  }

  /** The attribute of a filtered column. */
  private def columnOf(scan: SparkPlan, c: ScanColumn): Attribute = scan match {
    case f: FileSourceScanExec if c.isPartitionColumn => f.output(f.requiredSchema.length + c.partitionOrdinal)
    case other => other.output(c.ordinal)
  }

  /** Position of a column among those that are read, and among the partition columns; -1 for none. */
  private[plan] def position(scan: SparkPlan, column: Attribute): Either[Reason, (Int, Int)] = {
    val at = scan.output.indexWhere(_.exprId == column.exprId)
    scan match {
      case _ if at < 0 => Left(Reasons.NotInScan(column.name))
      case f: FileSourceScanExec =>
        // The scan's output is the required schema and then the partition columns.
        val data = f.requiredSchema.length
        if (at >= data + f.relation.partitionSchema.length) Left(Reasons.FileMetadata(column.name))
        else if (at >= data) Right((-1, at - data))
        else if (ParquetFormats.isInternal(column.name)) Left(Reasons.RowIndex(column.name))
        else Right((at, -1))
      case _ => Right((at, -1))
    }
  }

  /** The scan under these filters. */
  private def withColumns(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): SparkPlan = {
    val spec = scan match {
      case s: SpecScan => s.spec.withColumns(columns)
      case other => specOf(other, columns, conf)
    }
    val filtered = scan match {
      case d: DynamicFilterScanExec => d.copy(spec = spec, child = withReader(d.child, spec))
      case r: RowFilteredScanExec => r.copy(spec = spec, child = withReader(r.child, spec))
      case c: CachedScanExec => c.copy(spec = spec)
      case CachedScans(s) => CachedScanExec(spec, s)
      case RowScans(s) => RowFilteredScanExec(spec, withReader(s, spec))
      case s => DynamicFilterScanExec(spec, withReader(s, spec))
    }
    Tagged(filtered, scan)
  }

  private def specOf(scan: SparkPlan, columns: IndexedSeq[ScanColumn], conf: SQLConf): ScanSpec = {
    val parquet = scan match {
      case RowScans(_) => None
      case f: FileSourceScanExec => Some(f)
      case _ => None
    }
    new ScanSpec(
      ScanSpec.nextId(),
      scan match {
        case f: FileSourceScanExec => f.requiredSchema
        case other => other.schema
      },
      columns,
      parquet.toSeq.flatMap(EarlyPredicates.inScan),
      parquet.fold("")(f => optionsOf(f.relation)),
      parquet.isDefined && Settings.get(conf, Settings.LateMaterialization),
      if (ScanHint.on(scan).contains(ScanHint.Use)) 1.0 else Settings.get(conf, Settings.GiveUp)
    )
  }

  /** The scan with a format that uses the filters, if we know its own. */
  private def withReader(scan: SparkPlan, spec: ScanSpec): SparkPlan = scan match {
    case f: FileSourceScanExec =>
      WrappedFormat.unwrapped(f) match {
        case p: ParquetFileFormat =>
          withFormat(f, new DynamicParquetFormat(spec, p, ParquetFormats.countsRows), f.relation.options + Marker)
        case other if RowScans.isKnown(other) =>
          withFormat(f, new OtherFileFormat(other, spec), f.relation.options + Marker)
        case _ => f
      }
    case other => other
  }

  /** The scan as Spark planned it. */
  private[plan] def asPlanned(filtered: SpecScan): SparkPlan = filtered.child match {
    case f: FileSourceScanExec => withFormat(f, WrappedFormat.unwrapped(f), f.relation.options - Marker._1)
    case other => other
  }

  private def withFormat(scan: FileSourceScanExec, format: FileFormat, options: Map[String, String]): SparkPlan =
    WithArguments[SparkPlan](scan) { case relation: HadoopFsRelation =>
      relation.copy(fileFormat = format, options = options)(relation.sparkSession)
    }

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
          case _: PlanExpression[_] | _: UserDefinedExpression | _: Unevaluable => true
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

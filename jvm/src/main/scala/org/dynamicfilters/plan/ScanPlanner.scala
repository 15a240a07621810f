package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  BoundReference,
  Expression,
  PlanExpression,
  Unevaluable,
  UserDefinedExpression
}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange.FilterRef
import org.dynamicfilters.scan.{DynamicParquetFormat, ScanColumn, ScanSpec}

/** Puts a filter into a file scan. */
object ScanPlanner {

  /** Marks the relation: the wrapped format equals Spark's own, so something else must differ. */
  val MarkerOption = "dynamicfilters.marker"

  /** @return
    *   the filtered scan, or why the scan cannot be filtered by the column
    */
  def filtered(
      scan: FileSourceScanExec,
      column: Attribute,
      ref: FilterRef,
      conf: SQLConf
  ): Either[String, SparkPlan] = {
    val relation = scan.relation
    val format = relation.fileFormat
    val data = scan.requiredSchema.length
    val at = scan.output.indexWhere(_.exprId == column.exprId)
    if (format.getClass != classOf[ParquetFileFormat])
      Left(s"files of format ${format.toString.takeWhile(_ != '@')} are not filtered yet")
    // Row groups and rows are read best first, so an order that somebody above relies on would be lost.
    else if (scan.outputOrdering.nonEmpty) Left("the order of the scan's rows is in use")
    else if (at < 0) Left(s"the scan does not read ${column.name}")
    else if (at >= data + relation.partitionSchema.length) Left(s"${column.name} is file metadata")
    else if (at < data && column.name == ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME)
      Left("the sort key is a row index")
    else {
      val where =
        if (at < data) ScanColumn(ref, column.name, at, -1) else ScanColumn(ref, column.name, -1, at - data)
      val spec = new ScanSpec(
        ScanSpec.nextId(),
        s"${ref.marker}:$at",
        scan.requiredSchema,
        IndexedSeq(where),
        predicates(scan),
        decoding(relation, conf),
        Settings.get(conf, Settings.LateMaterialization),
        Settings.get(conf, Settings.GiveUp)
      )
      val marked = relation.copy(
        fileFormat = new DynamicParquetFormat(spec),
        options = relation.options + (MarkerOption -> spec.marker)
      )(relation.sparkSession)
      // makeCopy, because the scan's constructor differs between Spark versions.
      val swapped = scan
        .makeCopy(scan.productIterator.map {
          case _: HadoopFsRelation => marked
          case other => other.asInstanceOf[AnyRef]
        }.toArray)
      val filtered = DynamicFilterScanExec(spec, swapped)
      // Adaptive execution asserts that nodes have a logical link.
      filtered.copyTagsFrom(scan)
      Right(filtered)
    }
  }

  /** The query's own predicates that may be evaluated early: pure, without subqueries, on flat columns of the files. */
  private def predicates(scan: FileSourceScanExec): Seq[Expression] = {
    val position = scan.output.take(scan.requiredSchema.length).map(_.exprId).zipWithIndex.toMap
    scan.dataFilters
      .filter { p =>
        p.deterministic && p.references.nonEmpty &&
        p.references.forall(r =>
          position.contains(r.exprId) && isFlat(r) && r.name != ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME
        ) &&
        !p.exists {
          case _: AttributeReference => false
          case _: PlanExpression[_] | _: UserDefinedExpression | _: Unevaluable => true
          case _ => false
        }
      }
      .map(_.transform { case a: AttributeReference => BoundReference(position(a.exprId), a.dataType, a.nullable) })
  }

  private def isFlat(a: Attribute): Boolean = a.dataType match {
    case _: org.apache.spark.sql.types.StructType | _: org.apache.spark.sql.types.ArrayType |
        _: org.apache.spark.sql.types.MapType =>
      false
    case _ => true
  }

  /** What changes how stored values are decoded; see [[ScanSpec.decoding]]. */
  private def decoding(relation: HadoopFsRelation, conf: SQLConf): String =
    (Seq(
      SQLConf.SESSION_LOCAL_TIMEZONE,
      SQLConf.PARQUET_INT96_TIMESTAMP_CONVERSION,
      SQLConf.PARQUET_REBASE_MODE_IN_READ,
      SQLConf.PARQUET_INT96_REBASE_MODE_IN_READ,
      SQLConf.CASE_SENSITIVE,
      SQLConf.PARQUET_FIELD_ID_READ_ENABLED
    ).map(e => conf.getConfString(e.key, e.defaultValueString)) ++
      relation.options.filterNot(_._1 == MarkerOption).toSeq.sorted.map(_.toString)).mkString(";")
}

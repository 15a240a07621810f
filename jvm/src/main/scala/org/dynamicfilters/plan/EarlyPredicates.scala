package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.types._
import org.dynamicfilters.scan.NeverFails

/** The query's own predicates that late materialization may evaluate with the filters: deterministic, without subqueries, on
  * flat columns of the files, and never failing ([[NeverFails]]).
  *
  * Predicates that may fail, or take very long (regular expressions, LIKE), are left out: in stock Spark, other predicates may
  * drop the rows before.
  */
private[plan] object EarlyPredicates {

  /** Bound to the scan's required schema, in Spark's order. */
  def of(scan: FileSourceScanExec): Seq[Expression] = {
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

package org.dynamicfilters.operators

import org.apache.spark.sql.catalyst.expressions.{Expression, Unevaluable}
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.Comparison

/** The values of a build side's row that a join without equal keys compares one probe expression with:
  * `f.x >= r.lo AND f.x < r.hi`. It takes the place of a key; a tap collects the interval of probe values that match.
  *
  * @param operators between the probe expression and each value. All comparisons must be true
  * @param children the values, all of the probe expression's type
  */
case class RangeKey(operators: Seq[Comparison.Value], children: Seq[Expression]) extends Expression with Unevaluable {
  override def dataType: DataType = children.head.dataType
  override def nullable: Boolean = true
  override def sql: String = text(_.sql)
  override def toString: String = text(_.toString)
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): RangeKey =
    copy(children = newChildren)

  private def text(of: Expression => String): String =
    operators.zip(children).map { case (operator, value) => s"$operator ${of(value)}" }.mkString(" AND ")
}

package org.dynamicfilters.operators

import org.apache.spark.sql.catalyst.expressions.{Expression, Unevaluable}
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.Comparison

/** Stands for the build side's key in a join without equal keys: for `f.x >= r.lo AND f.x < r.hi` it is `>= r.lo AND < r.hi`. Spark
  * never evaluates it. A tap evaluates the values, and collects for each row the interval of probe keys that match.
  *
  * @param operators between the probe key and each value. All comparisons must be true
  * @param children the values, all of the probe key's type
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

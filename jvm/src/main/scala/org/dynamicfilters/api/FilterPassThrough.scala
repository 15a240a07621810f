package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical operator that lets dynamic filters through to its children.
  *
  * A filter says by one column of the output which rows cannot matter. For each column that the operator names, it promises:
  * dropping input rows by this column only drops output rows with the same value. No other row changes, and none is added. An
  * operator that looks at neighbouring rows, counts rows, or limits them must not name any column.
  *
  * It also promises that it is deterministic: the same input rows give the same output rows, in whatever order.
  *
  * {{{
  * case class Stamp(child: SparkPlan) extends UnaryExecNode with FilterPassThrough {
  *   override def sourceOf(column: Attribute): Option[Attribute] = child.output.find(_.exprId == column.exprId)
  *   ...
  * }
  * }}}
  */
trait FilterPassThrough { this: SparkPlan =>

  /** The column of a child that holds the same value in the row that an output row comes from.
    *
    * @param column of the operator's output
    * @return None stops the filter here
    */
  def sourceOf(column: Attribute): Option[Attribute]
}

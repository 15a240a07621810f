package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical operator that lets dynamic filters through to its children.
  *
  * A filter says of one column of the output which rows cannot matter. The operator promises, for each column that it names,
  * that dropping input rows by the column has no other effect than that output rows with the same value are dropped: no other
  * row changes, none is added. An operator that looks at neighbouring rows, counts rows, or limits them must not name any.
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

package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.connector.expressions.{Expression, FieldReference, LiteralValue}
import org.apache.spark.sql.types.DataType

/** Expressions of DataSource V2. */
object ExpressionAccess {
  def column(name: String): Expression = FieldReference(Seq(name))

  /** @param value
    *   as in Spark's InternalRow
    */
  def literal(value: Any, dataType: DataType): Expression = LiteralValue(value, dataType)
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Expression, In, InSet, Literal, PrettyAttribute}

/** Expressions in reasons, without values: `concat(s, ?)`. Whoever reads a report need not be one who may see the query's text,
  * and `report.showValues=false` promises that there are none.
  */
private[plan] object ExpressionText {
  def of(e: Expression): String = e.transformUp {
    case l: Literal => PrettyAttribute("?", l.dataType)
    case s: InSet => In(s.child, Seq(PrettyAttribute("?", s.child.dataType)))
  }.sql
}

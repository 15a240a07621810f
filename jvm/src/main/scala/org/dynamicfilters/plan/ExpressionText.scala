package org.dynamicfilters.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions.{Expression, In, InSet, Literal, PrettyAttribute}

/** Expressions in reasons, without values: `concat(s, ?)`. Whoever reads a report need not be one who may see the query's text,
  * and `report.showValues=false` promises that there are none.
  */
private[plan] object ExpressionText {
  def of(e: Expression): String =
    try
      e.transformUp {
        case l: Literal => PrettyAttribute("?", l.dataType)
        case s: InSet => In(s.child, Seq(PrettyAttribute("?", s.child.dataType)))
      }.sql
    catch {
      // One that insists on a literal somewhere. A reason must not cost a filter.
      case NonFatal(_) => s"${e.prettyName}(...)"
    }
}

package org.dynamicfilters.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Expression, In, InSet, Literal, PrettyAttribute, TryEval}

/** Expressions as text in reasons, with `?` for values: readers of reports may not be allowed to see them, and
  * `report.showValues=false` promises that there are none.
  */
private[plan] object ExpressionText {
  def withoutValues(e: Expression): String =
    try
      e.transformUp {
        case l: Literal => PrettyAttribute("?", l.dataType)
        case s: InSet => In(s.child, Seq(PrettyAttribute("?", s.child.dataType)))
        // As MonotoneExpressions.asColumns puts them around keys.
        case t: TryEval => t.child
        case a: Alias => a.child
      }.sql
    catch {
      // Some expressions accept only literals as arguments. A failure here must not cost a filter.
      case NonFatal(_) => s"${e.prettyName}(...)"
    }
}

/** Splits conditions at AND. Spark's `PredicateHelper` does the same, but a class that mixes it in does not link with all Spark
  * lines: its methods differ between them.
  */
private[plan] object Conjuncts {
  def apply(condition: Expression): Seq[Expression] = condition match {
    case And(a, b) => apply(a) ++ apply(b)
    case other => Seq(other)
  }
}

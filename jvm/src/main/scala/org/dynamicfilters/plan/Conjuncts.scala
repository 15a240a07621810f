package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{And, Expression}

/** Splits conditions at AND. Spark's `PredicateHelper` does the same, but a class that mixes it in does not link with all Spark
  * lines: its methods differ between them.
  */
private[plan] object Conjuncts {
  def apply(condition: Expression): Seq[Expression] = condition match {
    case And(a, b) => apply(a) ++ apply(b)
    case other => Seq(other)
  }
}

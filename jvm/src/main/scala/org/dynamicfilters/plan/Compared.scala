package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.dynamicfilters.filter.Comparison

/** A comparison in the form `side operator value`: a filter of `side` can be made once the value is known. */
private[plan] final case class Compared(side: Expression, operator: Comparison.Value, value: Expression)

private[plan] object Compared {
  import Comparison._

  /** The comparison, turned around if needed; None for all other expressions. */
  def of(e: Expression, isSide: Expression => Boolean, isValue: Expression => Boolean): Option[Compared] = {
    def either(a: Expression, b: Expression, operator: Value, flipped: Value): Option[Compared] =
      if (a.dataType != b.dataType) None
      else if (isSide(a) && isValue(b)) Some(Compared(a, operator, b))
      else if (isSide(b) && isValue(a)) Some(Compared(b, flipped, a))
      else None
    e match {
      case EqualTo(a, b) => either(a, b, Equal, Equal)
      case EqualNullSafe(a, b) => either(a, b, NullSafeEqual, NullSafeEqual)
      case LessThan(a, b) => either(a, b, Less, Greater)
      case LessThanOrEqual(a, b) => either(a, b, LessOrEqual, GreaterOrEqual)
      case GreaterThan(a, b) => either(a, b, Greater, Less)
      case GreaterThanOrEqual(a, b) => either(a, b, GreaterOrEqual, LessOrEqual)
      case _ => None
    }
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.dynamicfilters.filter.Comparison

/** A comparison of a filtered side with values that are known before it is read. */
private[plan] final case class Compared(side: Expression, operator: Comparison.Value, value: Expression)

private[plan] object Compared {
  import Comparison._

  /** @param isSide whether an expression can be the filtered side
    * @param isValue whether an expression can be the other one
    */
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

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Which expressions cannot be zero in a branch of a condition, as in `CASE WHEN n > 0 THEN x / n END`. Used by
  * [[NeverFails]].
  *
  * @param notZero canonicalized expressions that are NULL or not zero, so that a division by them cannot fail
  */
private[plan] final class Guards private (notZero: Set[Expression]) {

  /** Adds what cannot be zero if a condition is true, or without `isTrue`, if it is false or NULL. */
  def knowing(condition: Expression, isTrue: Boolean): Guards = new Guards(notZero ++ Guards.notZero(condition, isTrue))

  /** Whether the expression is NULL or not zero. */
  def isNotZero(e: Expression): Boolean = Guards.narrow(e) match {
    // As `nullif(n, 0)`.
    case If(condition, yes, no) => knowing(condition, true).isNotZero(yes) && knowing(condition, false).isNotZero(no)
    case l: Literal => !Guards.isZero(l)
    case x => notZero(x.canonicalized)
  }
}

private[plan] object Guards {
  val none: Guards = new Guards(Set.empty)

  /** The expressions that a condition shows to be NULL or not zero, if it is true (`isTrue`), or else if it is false or
    * NULL. Only comparisons with zero show that. They are NULL only if the expression is NULL.
    */
  private def notZero(condition: Expression, isTrue: Boolean): Set[Expression] = condition match {
    case And(l, r) if isTrue => notZero(l, isTrue) ++ notZero(r, isTrue)
    case Or(l, r) if !isTrue => notZero(l, isTrue) ++ notZero(r, isTrue)
    case Not(c: EqualTo) if isTrue => notZero(c, isTrue = false)
    // Spark moves the literals of comparisons to the right side.
    case EqualTo(x, zero) if !isTrue && isZero(zero) => Set(narrow(x).canonicalized)
    case GreaterThan(x, zero) if isTrue && isZero(zero) => Set(narrow(x).canonicalized)
    case LessThan(x, zero) if isTrue && isZero(zero) => Set(narrow(x).canonicalized)
    case _ => Set.empty
  }

  private def isZero(e: Expression): Boolean = narrow(e) match {
    case Literal(d: Decimal, _) => d.toBigDecimal.signum == 0
    case Literal(n: Number, _) => n.doubleValue == 0
    case _ => false
  }

  /** Strips casts to wider numbers, which keep zero and non-zero apart. */
  private def narrow(e: Expression): Expression = e match {
    case c: Cast if isNumber(c) && isNumber(c.child) && Cast.canUpCast(c.child.dataType, c.dataType) => narrow(c.child)
    case KnownNotNull(x) => narrow(x)
    case _ => e
  }

  private def isNumber(e: Expression): Boolean = e.dataType.isInstanceOf[NumericType]
}

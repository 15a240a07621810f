package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Which expressions cannot be zero in a branch of a condition, as in `CASE WHEN n > 0 THEN x / n END`. Used by
  * [[NeverFails]].
  *
  * @param notZero canonicalized expressions that are NULL or not zero, so that a division by them cannot fail
  */
private[plan] final class Guards private (notZero: Set[Expression]) {

  /** In the branch for a true condition, or else in that for a false or NULL condition. */
  def where(condition: Expression, isTrue: Boolean): Guards = new Guards(notZero ++ Guards.notZero(condition, isTrue))

  /** Whether the expression is NULL or not zero. */
  def isNotZero(e: Expression): Boolean = Guards.narrow(e) match {
    case Literal(null, _) => true
    case l: Literal => Guards.sign(l).exists(_ != 0)
    // As `nullif(n, 0)`.
    case If(condition, yes, no) => where(condition, true).isNotZero(yes) && where(condition, false).isNotZero(no)
    case x => notZero(x.canonicalized)
  }
}

private[plan] object Guards {
  val none: Guards = new Guards(Set.empty)

  /** The expressions that are NULL or not zero if a condition is true, or else if it is false or NULL: those that are
    * compared with a literal, if the comparison would have another result for zero. Such a comparison is NULL only if
    * the expression is NULL.
    */
  private def notZero(condition: Expression, isTrue: Boolean): Set[Expression] = condition match {
    case And(l, r) if isTrue => notZero(l, isTrue) ++ notZero(r, isTrue)
    case Or(l, r) if !isTrue => notZero(l, isTrue) ++ notZero(r, isTrue)
    case Not(c: EqualTo) if isTrue => notZero(c, isTrue = false)
    // Spark moves the literals of comparisons to the right side.
    case c: BinaryComparison =>
      sign(c.right).flatMap(holdsForZero(c, _)).filter(_ != isTrue).map(_ => narrow(c.left).canonicalized).toSet
    case _ => Set.empty
  }

  /** Whether a comparison with a literal of this sign is true for zero. */
  private def holdsForZero(c: BinaryComparison, sign: Int): Option[Boolean] = c match {
    case _: EqualTo => Some(sign == 0)
    case _: GreaterThan => Some(sign < 0)
    case _: GreaterThanOrEqual => Some(sign <= 0)
    case _: LessThan => Some(sign > 0)
    case _: LessThanOrEqual => Some(sign >= 0)
    case _ => None
  }

  /** Strips casts to wider numbers, which keep zero and non-zero apart. */
  private def narrow(e: Expression): Expression = e match {
    case c: Cast if isNumber(c) && isNumber(c.child) && Cast.canUpCast(c.child.dataType, c.dataType) => narrow(c.child)
    case KnownNotNull(x) => narrow(x)
    case _ => e
  }

  private def isNumber(e: Expression): Boolean = e.dataType.isInstanceOf[NumericType]

  /** The sign of a literal; None for other expressions, and for NaN. */
  private def sign(e: Expression): Option[Int] = narrow(e) match {
    case Literal(d: Double, _) => if (d.isNaN) None else Some(d.sign.toInt)
    case Literal(f: Float, _) => if (f.isNaN) None else Some(f.sign.toInt)
    case Literal(d: Decimal, _) => Some(d.toBigDecimal.signum)
    case Literal(n: Number, _: NumericType) => Some(n.longValue.sign.toInt)
    case _ => None
  }
}

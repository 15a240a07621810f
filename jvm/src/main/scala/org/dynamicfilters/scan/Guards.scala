package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Which expressions cannot be zero in a branch of a condition, as in `CASE WHEN n > 0 THEN x / n END`. Used by
  * [[NeverFails]].
  *
  * @param notZero canonicalized expressions that are NULL or not zero, so that a division by them cannot fail
  */
private[scan] final class Guards private (notZero: Set[Expression]) {

  /** In the branch for a true condition. */
  def where(condition: Expression): Guards = new Guards(notZero ++ Guards.ifTrue(condition))

  /** In the branch for a false or NULL condition. */
  def whereNot(condition: Expression): Guards = new Guards(notZero ++ Guards.ifNotTrue(condition))

  /** Whether the expression is NULL or not zero. */
  def isNotZero(e: Expression): Boolean = Guards.narrow(e) match {
    case Literal(null, _) => true
    case l: Literal => Guards.sign(l).exists(_ != 0)
    case If(condition, yes, no) => where(condition).isNotZero(yes) && whereNot(condition).isNotZero(no)
    case Coalesce(values) => values.forall(isNotZero)
    case x => notZero(x.canonicalized)
  }
}

private[scan] object Guards {
  def apply(notZero: Seq[Expression]): Guards = new Guards(notZero.map(_.canonicalized).toSet)

  // A comparison with a literal is NULL only if the expression is NULL.
  private def ifTrue(condition: Expression): Set[Expression] = condition match {
    case And(l, r) => ifTrue(l) ++ ifTrue(r)
    case Not(EqualTo(Term(x), Sign(0))) => Set(x)
    case EqualTo(Term(x), Sign(s)) if s != 0 => Set(x)
    case GreaterThan(Term(x), Sign(s)) if s >= 0 => Set(x)
    case GreaterThanOrEqual(Term(x), Sign(s)) if s > 0 => Set(x)
    case LessThan(Term(x), Sign(s)) if s <= 0 => Set(x)
    case LessThanOrEqual(Term(x), Sign(s)) if s < 0 => Set(x)
    case _ => Set.empty
  }

  private def ifNotTrue(condition: Expression): Set[Expression] = condition match {
    case Or(l, r) => ifNotTrue(l) ++ ifNotTrue(r)
    case EqualTo(Term(x), Sign(0)) => Set(x)
    case LessThanOrEqual(Term(x), Sign(s)) if s >= 0 => Set(x)
    case LessThan(Term(x), Sign(s)) if s > 0 => Set(x)
    case GreaterThanOrEqual(Term(x), Sign(s)) if s <= 0 => Set(x)
    case GreaterThan(Term(x), Sign(s)) if s < 0 => Set(x)
    case _ => Set.empty
  }

  // Spark moves the literals of comparisons to the right side.
  private object Term {
    def unapply(e: Expression): Some[Expression] = Some(narrow(e).canonicalized)
  }

  private object Sign {
    def unapply(e: Expression): Option[Int] = narrow(e) match {
      case l: Literal => sign(l)
      case _ => None
    }
  }

  /** Strips casts to wider numbers, which keep zero and non-zero apart. */
  private def narrow(e: Expression): Expression = e match {
    case c: Cast if isNumber(c) && isNumber(c.child) && Cast.canUpCast(c.child.dataType, c.dataType) => narrow(c.child)
    case KnownNotNull(x) => narrow(x)
    case _ => e
  }

  private def isNumber(e: Expression): Boolean = e.dataType.isInstanceOf[NumericType]

  private def sign(l: Literal): Option[Int] = l.value match {
    case d: Double => if (d.isNaN) None else Some(d.sign.toInt)
    case f: Float => if (f.isNaN) None else Some(f.sign.toInt)
    case d: Decimal => Some(d.toBigDecimal.signum)
    case n: Number if l.dataType.isInstanceOf[NumericType] => Some(n.longValue.sign.toInt)
    case _ => None
  }
}

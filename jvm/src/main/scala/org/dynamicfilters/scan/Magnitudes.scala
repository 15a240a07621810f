package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

/** Bounds of the absolute values of integer expressions, to see whether their arithmetic can overflow. Used by
  * [[NeverFails]].
  *
  * @param functionOf
  *   the aggregate function whose result an expression is, if known
  */
private[scan] final class Magnitudes(functionOf: Expression => Option[AggregateFunction]) {

  /** Whether no result of the integer arithmetic overflows its type. */
  def fits(e: Expression): Boolean = Magnitudes.greatest(e.dataType).exists(g => maxAbs(e).exists(_ <= g))

  /** Whether the negation of every value is a BIGINT too. */
  def isAboveLeast(e: Expression): Boolean = maxAbs(e).exists(_ <= Long.MaxValue)

  /** The largest absolute value of an integer expression; None if unknown or not an integer. */
  def maxAbs(e: Expression): Option[BigInt] = e match {
    case Literal(n: Number, t) if Magnitudes.isInteger(t) => Some(BigInt(n.longValue).abs)
    case c: Cast if Magnitudes.isInteger(c.child.dataType) => maxAbs(c.child)
    case x if functionOf(x).exists(_.isInstanceOf[Count]) => Some(Magnitudes.Rows)
    case a: Add => both(a)(_ + _)
    case s: Subtract => both(s)(_ + _)
    case m: Multiply => both(m)(_ * _)
    case d: IntegralDivide => maxAbs(d.left)
    case r: Remainder => (maxAbs(r.left) ++ maxAbs(r.right)).minOption
    case UnaryMinus(x, _) => maxAbs(x)
    case Abs(x, _) => maxAbs(x)
    case Coalesce(values) => largest(values)
    case If(_, yes, no) => largest(Seq(yes, no))
    case CaseWhen(branches, otherwise) => largest(branches.map(_._2) ++ otherwise)
    case _: Year => Some(Magnitudes.Years)
    case _: Quarter | _: Month | _: DayOfMonth => Some(31)
    case _ => typed(e)
  }

  private def typed(e: Expression): Option[BigInt] = e.dataType match {
    case LongType => None
    case t => Magnitudes.greatest(t).map(_ + 1)
  }

  private def both(e: BinaryArithmetic)(f: (BigInt, BigInt) => BigInt): Option[BigInt] =
    for { l <- maxAbs(e.left); r <- maxAbs(e.right) } yield f(l, r)

  private def largest(values: Seq[Expression]): Option[BigInt] =
    values.filter { case Literal(null, _) => false; case _ => true }.map(maxAbs) match {
      case bounds if bounds.nonEmpty && bounds.forall(_.isDefined) => bounds.flatten.maxOption
      case _ => None
    }
}

private[scan] object Magnitudes {

  /** No table has more rows. */
  private val Rows = BigInt(1) << 53

  /** A sum of so small numbers does not overflow a BIGINT, whatever the table's size. */
  val Ints: BigInt = BigInt(1) << 31

  /** Days of dates and microseconds of timestamps have 32 and 64 bits. */
  private val Years = BigInt(6000000)

  def isInteger(t: DataType): Boolean = greatest(t).isDefined

  private def greatest(t: DataType): Option[BigInt] = t match {
    case ByteType => Some(BigInt(Byte.MaxValue))
    case ShortType => Some(BigInt(Short.MaxValue))
    case IntegerType => Some(BigInt(Int.MaxValue))
    case LongType => Some(BigInt(Long.MaxValue))
    case _ => None
  }
}

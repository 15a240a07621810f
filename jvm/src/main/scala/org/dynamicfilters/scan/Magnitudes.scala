package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

/** How large integers get: whether arithmetic of them overflows.
  *
  * @param functionOf
  *   the aggregate function that an expression is the result of, if that is known
  */
private[scan] final class Magnitudes(functionOf: Expression => Option[AggregateFunction]) {

  /** Whether all results of integer arithmetic have room in its type. */
  def fits(e: Expression): Boolean = Magnitudes.greatest(e.dataType).exists(g => of(e).exists(_ <= g))

  /** Whether the opposite of all values is a BIGINT too. */
  def isAboveLeast(e: Expression): Boolean = of(e).exists(_ <= Long.MaxValue)

  /** What an integer, or its opposite, is at most; None if that is not known, or it is no integer. */
  def of(e: Expression): Option[BigInt] = e match {
    case Literal(n: Number, t) if Magnitudes.isInteger(t) => Some(BigInt(n.longValue).abs)
    case c: Cast if Magnitudes.isInteger(c.child.dataType) => of(c.child)
    case x if functionOf(x).exists(_.isInstanceOf[Count]) => Some(Magnitudes.Rows)
    case a: Add => both(a)(_ + _)
    case s: Subtract => both(s)(_ + _)
    case m: Multiply => both(m)(_ * _)
    case d: IntegralDivide => of(d.left)
    case r: Remainder => (of(r.left) ++ of(r.right)).minOption
    case UnaryMinus(x, _) => of(x)
    case Abs(x, _) => of(x)
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
    for { l <- of(e.left); r <- of(e.right) } yield f(l, r)

  private def largest(values: Seq[Expression]): Option[BigInt] =
    values.filter { case Literal(null, _) => false; case _ => true }.map(of) match {
      case bounds if bounds.nonEmpty && bounds.forall(_.isDefined) => bounds.flatten.maxOption
      case _ => None
    }
}

private[scan] object Magnitudes {

  /** No table has more rows. */
  private val Rows = BigInt(1) << 53

  /** Of any number of those that tables have, a sum has room in a BIGINT. */
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

package org.dynamicfilters.plan

import java.time.ZoneId

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{KeyDomain, LongDomain}
import org.dynamicfilters.scan.ColumnKey

/** Finds expressions of one column that never fall while the column rises, so that a filter of their value gives a range of the
  * column. [[org.dynamicfilters.filter.ComputedKey ComputedKey]] inverts them by searching with Spark's own evaluation, so no function has an inverse of its own here.
  *
  * On 100M rows in order of arrival a join by `to_date(ts)` with one day of 1,000 takes a share of the time of stock Spark that
  * docs/bench/README.md has.
  */
object ComputedKeys {

  /** @return
    *   the expression's column, and the expression with `BoundReference(0)` in its place; None if its value may fall
    */
  def of(e: Expression): Option[(AttributeReference, Expression)] =
    e.collect { case a: AttributeReference => a } match {
      case Seq(column) if rises(e) => Some((column, at0(e)))
      case _ => None
    }

  /** The expression with another one in the place of its column. */
  def on(e: Expression, column: Expression): Expression = e.transform { case _: BoundReference => column }

  private def at0(e: Expression): Expression = e.transform { case a: AttributeReference =>
    BoundReference(0, a.dataType, a.nullable)
  }

  /** The key of a scan's column; None if its filters cannot be inverted.
    *
    * @param e
    *   as [[of]] returns it
    * @param text
    *   for plans and reports
    */
  def key(e: Expression, column: DataType, text: String): Option[ColumnKey] =
    for {
      _ <- KeyDomain.of(column).toOption.collect { case d: LongDomain => d }
      to <- KeyDomain.of(e.dataType).toOption
      slack <- slackOf(e, column)
      key = new ColumnKey(e, column, to.dataType, slack, text)
      if key.isValid
    } yield key

  private def rises(e: Expression): Boolean = e match {
    case _: AttributeReference | _: BoundReference => true
    case c: Cast => risesAs(c.child.dataType, c.dataType) && rises(c.child)
    case t: TruncTimestamp => t.format.foldable && rises(t.timestamp)
    case t: TruncDate => t.format.foldable && rises(t.date)
    case y: Year => rises(y.child)
    // Other modes wrap around.
    case a: Add => isExact(a) && ((rises(a.left) && a.right.foldable) || (a.left.foldable && rises(a.right)))
    case s: Subtract => isExact(s) && rises(s.left) && s.right.foldable
    case m: Multiply =>
      isExact(m) && ((rises(m.left) && isPositive(m.right)) || (isPositive(m.left) && rises(m.right)))
    case d: IntegralDivide => digits.contains(d.left.dataType) && rises(d.left) && isPositive(d.right)
    case _ => false
  }

  private def isExact(e: BinaryArithmetic): Boolean = digits.contains(e.dataType) && failsOnOverflow(e)

  /** By a value: the mode of an operator has another type in each Spark line. */
  private def failsOnOverflow(e: BinaryArithmetic): Boolean = {
    val greatest = e.dataType match {
      case ByteType => Literal(Byte.MaxValue)
      case ShortType => Literal(Short.MaxValue)
      case IntegerType => Literal(Int.MaxValue)
      case _ => Literal(Long.MaxValue)
    }
    val overflows = e match {
      case s: Subtract => s.withNewChildren(Seq(UnaryMinus(greatest, failOnError = false), greatest))
      case other => other.withNewChildren(Seq(greatest, greatest))
    }
    Try(overflows.eval()).isFailure
  }

  private def isPositive(e: Expression): Boolean = e.foldable && (e.eval() match {
    case n: Number => n.longValue > 0
    case _ => false
  })

  /** Decimal digits of the integers. */
  private val digits: Map[DataType, Int] = Map(ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 19)

  /** Whether a cast keeps the order of all values and never gives NULL. */
  private def risesAs(from: DataType, to: DataType): Boolean = (from, to) match {
    case (_, FloatType | DoubleType) => digits.contains(from)
    case (_, d: DecimalType) if digits.contains(from) => d.precision - d.scale >= digits(from)
    case _ if digits.contains(from) && digits.contains(to) => digits(to) >= digits(from)
    case (a: DecimalType, b: DecimalType) => b.scale >= a.scale && b.precision - b.scale >= a.precision - a.scale
    case (DateType, TimestampType | TimestampNTZType) => true
    case (TimestampType, DateType | TimestampNTZType | LongType) => true
    case (TimestampNTZType, DateType) => true
    case _ => false
  }

  /** See [[org.dynamicfilters.filter.ComputedKey ComputedKey]]. Two times that lie further apart than the zone's offsets differ have local times in the same order, and
    * so have two local times their instants. The factor 3 covers a function that goes to local time, truncates, and goes back.
    *
    * @return
    *   None if local time is computed of other types
    */
  private def slackOf(e: Expression, column: DataType): Option[Long] = {
    val spreads = e.collect {
      case c: Cast if c.needsTimeZone => spread(c.zoneId)
      case t: TruncTimestamp => spread(t.zoneId)
    }
    column match {
      case _ if spreads.forall(_ == 0) => Some(0L)
      case TimestampType => Some(3 * spreads.sum * MicrosPerSecond)
      case DateType => Some(3L * spreads.size)
      case _ => None
    }
  }

  private val MicrosPerSecond = 1000000L

  /** Seconds between the least and the greatest offset that the zone ever has. */
  private def spread(zone: ZoneId): Long = {
    val rules = zone.getRules
    val offsets = rules.getTransitions.asScala.flatMap(t => Seq(t.getOffsetBefore, t.getOffsetAfter)) ++
      rules.getTransitionRules.asScala.flatMap(t => Seq(t.getOffsetBefore, t.getOffsetAfter))
    if (offsets.isEmpty) 0L else (offsets.map(_.getTotalSeconds).max - offsets.map(_.getTotalSeconds).min).toLong
  }
}

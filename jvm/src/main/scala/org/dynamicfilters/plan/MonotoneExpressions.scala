package org.dynamicfilters.plan

import java.time.ZoneId

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{KeyDomain, LongDomain}
import org.dynamicfilters.scan.{DerivedKey, NestedField}

/** Recognizes monotone expressions of one column: as the column rises, the key never falls (`to_date(ts)`, `x + 1`), or
  * never rises (`-x`). Exceptions are clock changes ([[slackOf]]), and NULL, which may have any key (`coalesce(x, 0)`).
  * A filter of such an expression gives a range of the column. [[org.dynamicfilters.filter.MonotoneInverse
  * MonotoneInverse]] finds the range by a search with Spark's own evaluation, so no function has an inverse of its own.
  *
  * The case `computed` of the benchmark `joins` measures it.
  */
object MonotoneExpressions {

  /** @return the expression's column, and the expression with `BoundReference(0)` in its place; None if it is not
    *   monotone, or has more than one reference to a column
    */
  def of(e: Expression): Option[(AttributeReference, Expression)] =
    e.collect { case a: AttributeReference => a } match {
      case Seq(column) if isMonotone(e) => Some((column, at0(e)))
      case _ => None
    }

  /** The expression with another one in the place of its column. */
  def on(e: Expression, column: Expression): Expression = e.transformUp { case _: BoundReference => column }

  /** A plan with a column for each expression: a projection computes those that are monotone.
    *
    * @return the plan, and the expressions with the new columns in place of monotone ones
    */
  def asColumns(plan: SparkPlan, expressions: Seq[Expression]): (SparkPlan, Seq[Expression]) = {
    val computed = expressions
      .distinctBy(_.canonicalized)
      .collect {
        case e if !e.isInstanceOf[Attribute] && of(e).isDefined =>
          // Spark computes no key of a single row, so computing it here must not fail.
          e.canonicalized -> Alias(TryEval(e), "computedKey")()
      }
      .toMap
    // Without a logical link: adaptive execution would take the projection for the stage below it, which lacks the key.
    val projected = if (computed.isEmpty) plan else ProjectExec(plan.output ++ computed.values, plan)
    (projected, expressions.map(e => computed.get(e.canonicalized).fold(e)(_.toAttribute)))
  }

  private def at0(e: Expression): Expression = e.transform { case a: AttributeReference =>
    BoundReference(0, a.dataType, a.nullable)
  }

  /** The key of a scan's column; None if its filters cannot be inverted.
    *
    * @param e as [[of]] returns it
    */
  def key(e: Expression, column: DataType, text: String): Option[DerivedKey] = {
    val field = e.find(pathOf(_).exists(_.nonEmpty)).map(f => f -> NestedField(pathOf(f).get, f.dataType))
    val from = field.fold(column)(_._2.dataType)
    val ofField = field.fold(e) { case (f, _) =>
      e.transform { case x if x eq f => BoundReference(0, from, nullable = true) }
    }
    for {
      _ <- KeyDomain.forType(from).toOption.filter(_.isInstanceOf[LongDomain] || ofField.isInstanceOf[BoundReference])
      to <- KeyDomain.forType(e.dataType).toOption
      slack <- slackOf(ofField, from)
      key = new DerivedKey(field.map(_._2), ofField, from, to.dataType, slack, falls(ofField), text)
      if key.isValid
    } yield key
  }

  /** The path of [[NestedField]] from a column to a field; empty for the column itself, None for all other expressions.
    */
  private def pathOf(e: Expression): Option[Seq[(Int, Int)]] = e match {
    case _: AttributeReference | _: BoundReference => Some(Nil)
    case g: GetStructField => pathOf(g.child).map(_ :+ ((g.ordinal, g.childSchema.length)))
    case _ => None
  }

  private def isMonotone(e: Expression): Boolean = e match {
    case _: AttributeReference | _: BoundReference | _: GetStructField => pathOf(e).isDefined
    case t: TryEval => isMonotone(t.child)
    case c: Cast => keepsOrder(c.child.dataType, c.dataType) && isMonotone(c.child)
    case t: TruncTimestamp => t.format.foldable && isMonotone(t.timestamp)
    case t: TruncDate => t.format.foldable && isMonotone(t.date)
    case y: Year => isMonotone(y.child)
    // Without ANSI mode an overflow wraps around, or gives NULL.
    case a: Add =>
      isChecked(a) && ((isMonotone(a.left) && a.right.foldable) || (a.left.foldable && isMonotone(a.right)))
    case s: Subtract =>
      isChecked(s) && ((isMonotone(s.left) && s.right.foldable) || (s.left.foldable && isMonotone(s.right)))
    case m: Multiply =>
      isChecked(m) && ((isMonotone(m.left) && sign(m.right) != 0) || (sign(m.left) != 0 && isMonotone(m.right)))
    case d: IntegralDivide => KeyDomain.isInteger(d.left.dataType) && isMonotone(d.left) && sign(d.right) > 0
    case u: UnaryMinus => KeyDomain.isInteger(u.dataType) && u.failOnError && isMonotone(u.child)
    case Coalesce(Seq(value, forNull)) => forNull.foldable && isMonotone(value)
    case _ => false
  }

  /** Whether a monotone expression falls while its column rises. */
  private def falls(e: Expression): Boolean = e match {
    case constant if constant.foldable => false
    case u: UnaryMinus => !falls(u.child)
    case s: Subtract if s.left.foldable => !falls(s.right)
    case m: Multiply => m.children.exists(sign(_) < 0) != m.children.exists(falls)
    case other => other.children.exists(falls)
  }

  private def isChecked(e: BinaryArithmetic): Boolean = KeyDomain.isInteger(e.dataType) && e.evalMode == EvalMode.ANSI

  /** The sign of a constant integer; 0 for all other expressions. */
  private def sign(e: Expression): Int = if (!e.foldable) 0
  else
    e.eval() match {
      case n: Number => java.lang.Long.signum(n.longValue)
      case _ => 0
    }

  /** Whether a cast keeps the order of all values and never makes NULL of one. */
  private def keepsOrder(from: DataType, to: DataType): Boolean = (from, to) match {
    case (FloatType | DoubleType, _) => false
    case (_: DecimalType, FloatType | DoubleType) => false
    case (_: NumericType, _: NumericType) => Cast.canUpCast(from, to)
    case (DateType, TimestampType | TimestampNTZType) => true
    case (TimestampType, DateType | TimestampNTZType | LongType) => true
    case (TimestampNTZType, DateType) => true
    case _ => false
  }

  /** The slack of [[org.dynamicfilters.filter.MonotoneInverse MonotoneInverse]]. Two instants that lie further apart
    * than the zone's largest and least offset have local times in the same order, and two such local times have
    * instants in the same order. The factor 3 covers a function that goes to local time, truncates, and goes back.
    *
    * @return None if the expression uses local time and the column is neither a timestamp nor a date
    */
  private def slackOf(e: Expression, column: DataType): Option[Long] = {
    val offsetRanges = e.collect {
      case c: Cast if c.needsTimeZone => offsetRange(c.zoneId)
      case t: TruncTimestamp => offsetRange(t.zoneId)
    }
    column match {
      case _ if offsetRanges.forall(_ == 0) => Some(0L)
      case TimestampType => Some(3 * offsetRanges.sum * MicrosPerSecond)
      case DateType => Some(3L * offsetRanges.size)
      case _ => None
    }
  }

  private val MicrosPerSecond = 1000000L

  /** Seconds between the least and the greatest offset that the zone ever has. */
  private def offsetRange(zone: ZoneId): Long = {
    val rules = zone.getRules
    val offsets = rules.getTransitions.asScala.flatMap(t => Seq(t.getOffsetBefore, t.getOffsetAfter)) ++
      rules.getTransitionRules.asScala.flatMap(t => Seq(t.getOffsetBefore, t.getOffsetAfter))
    if (offsets.isEmpty) 0L else (offsets.map(_.getTotalSeconds).max - offsets.map(_.getTotalSeconds).min).toLong
  }
}

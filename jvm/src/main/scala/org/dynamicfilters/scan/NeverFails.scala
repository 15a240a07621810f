package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.ScalarSubquery
import org.apache.spark.sql.types._

/** Expressions that have a value, or NULL, for every input: no division by zero, no overflow, no function of a user.
  *
  * What is not listed may fail. Catalyst's own `Expression.throwable` says that only of few expressions (Spark 4.1 to 4.3).
  */
private[dynamicfilters] object NeverFails {

  /** @param functionOf
    *   the aggregate function that an attribute is the result of, if that is known
    */
  def apply(e: Expression, functionOf: ExprId => Option[AggregateFunction] = _ => None): Boolean = {
    def all(e: Expression): Boolean = NeverFails(e, functionOf)

    // The result of a function over decimals that are held as longs: Spark's DecimalAggregates makes it a decimal again.
    def unscaled(e: Expression): Option[AggregateFunction] = (e match {
      case a: Attribute => functionOf(a.exprId)
      case WindowExpression(f: AggregateExpression, _) => Some(f.aggregateFunction)
      case _ => None
    }).filter(_.children.exists(_.isInstanceOf[UnscaledValue]))

    e match {
      case _: Attribute | _: BoundReference | _: Literal | _: ScalarSubquery => true
      case MakeDecimal(x, _, _, nullOnOverflow) => (nullOnOverflow || unscaled(x).isDefined) && all(x)
      case Cast(Divide(x, n: Literal, _), _: DecimalType, _, _) if unscaled(x).isDefined => isNotZero(n) && all(x)
      case c: Cast => (c.evalMode != EvalMode.ANSI || Cast.canUpCast(c.child.dataType, c.dataType)) && all(c.child)
      case WindowExpression(f, spec) => all(f) && all(spec)
      case AggregateExpression(f, _, _, filter, _) => function(f) && f.children.forall(all) && filter.forall(all)
      case d: Divide => (d.evalMode != EvalMode.ANSI || (isNotZero(d.right) && isWide(d))) && d.children.forall(all)
      case a @ (_: Add | _: Subtract | _: Multiply) =>
        val b = a.asInstanceOf[BinaryArithmetic]
        (b.evalMode != EvalMode.ANSI || isWide(b)) && b.children.forall(all)
      case _: UnaryMinus | _: Abs => isWide(e) && e.children.forall(all)
      case x => isListed(x) && x.children.forall(all)
    }
  }

  /** Predicates, in the order in which Spark asks them, that may be asked while others are not: those before may keep rows from
    * one that it fails for.
    */
  def orGuarded(predicates: Seq[Expression])(isAsked: Expression => Boolean): Seq[Expression] = {
    val guarded = predicates.takeWhile(isAsked)
    guarded ++ predicates.drop(guarded.size).filter(p => isAsked(p) && NeverFails(p))
  }

  private def isListed(e: Expression): Boolean = e match {
    case _: Alias | _: SortOrder | _: And | _: Or | _: Not | _: BinaryComparison | _: In | _: InSet => true
    case _: IsNull | _: IsNotNull | _: IsNaN | _: AtLeastNNonNulls | _: Coalesce | _: If | _: CaseWhen => true
    case _: Greatest | _: Least | _: KnownNotNull | _: KnownFloatingPointNormalized | _: NormalizeNaNAndZero => true
    case _: StartsWith | _: EndsWith | _: Contains | _: Substring | _: Upper | _: Lower | _: Length => true
    case _: Year | _: Quarter | _: Month | _: DayOfMonth | _: DateDiff => true
    case _: GetStructField | _: CreateNamedStruct | _: Murmur3Hash | _: XxHash64 | _: UnscaledValue => true
    case _: RankLike | _: RowNumberLike | _: NthValue | _: Lag | _: Lead => true
    case _: WindowSpecDefinition | _: SpecialFrameBoundary | UnspecifiedFrame | SpecifiedWindowFrame(RowFrame, _, _) =>
      true
    // Other boundaries are added to what the window is ordered by.
    case SpecifiedWindowFrame(RangeFrame, _: SpecialFrameBoundary, _: SpecialFrameBoundary) => true
    case _: Partitioning | _: BloomFilterMightContain => true
    case _ => false
  }

  /** An aggregate function, whatever values, and how many, it is of. Not so many that a sum of integers overflows for their
    * number.
    */
  def function(f: AggregateFunction): Boolean = f match {
    case _: Count | _: Min | _: Max | _: MinBy | _: MaxBy | _: First | _: Last | _: CentralMomentAgg => true
    case s: Sum => s.evalContext.evalMode != EvalMode.ANSI || sums(s.child)
    case a: Average => a.evalMode != EvalMode.ANSI || a.child.dataType == LongType || sums(a.child)
    case _ => false
  }

  /** Whether a sum has room for 10 digits more than its values have. */
  private def sums(e: Expression): Boolean = e.dataType match {
    case FloatType | DoubleType | ByteType | ShortType | IntegerType => true
    case d: DecimalType => d.precision + 10 <= DecimalType.MAX_PRECISION
    case LongType =>
      e match {
        // Spark makes it where the sum has room.
        case _: UnscaledValue => true
        case Cast(x, _, _, _) => Seq(ByteType, ShortType, IntegerType).contains(x.dataType)
        case _ => false
      }
    case _ => false
  }

  /** Whether no result of arithmetic is too large for its type: decimals get as many digits as they need, up to 38. */
  private def isWide(e: Expression): Boolean = e.dataType match {
    case FloatType | DoubleType => true
    case d: DecimalType => d.precision < DecimalType.MAX_PRECISION
    case _ => false
  }

  private def isNotZero(e: Expression): Boolean = e match {
    case Literal(d: Double, _) => d != 0
    case Literal(f: Float, _) => f != 0
    case Literal(d: Decimal, _) => d.toBigDecimal.signum != 0
    case _ => false
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.ScalarSubquery
import org.apache.spark.sql.types._

/** Recognizes expressions that have a value or NULL for every input: no division by zero, no overflow, no user-defined
  * function. Patterns (LIKE, regular expressions) are not among them: some take very long.
  *
  * Expressions that are not listed may fail. Catalyst's own `Expression.throwable` covers few expressions (Spark 4.1 to
  * 4.3).
  */
private[plan] object NeverFails {

  /** @param functionOf the aggregate function whose result an attribute is, if known */
  def apply(e: Expression, functionOf: ExprId => Option[AggregateFunction] = _ => None): Boolean =
    new NeverFails(functionOf, Guards.none).all(e)

  /** Whether the cast has a value or NULL for every input. Casts between dates and timestamps, or between kinds of
    * timestamps, do not: timestamps have a smaller range. `Cast.canUpCast` accepts some of them for the nanosecond
    * timestamps of Spark 4.3. Casts to intervals fail in every mode except TRY.
    */
  private def hasAll(c: Cast): Boolean = {
    val from = c.child.dataType
    c.evalMode == EvalMode.TRY || ((from, c.dataType) match {
      case (TimestampType | TimestampNTZType, DateType) => true
      case (a, b) if isTime(a) && isTime(b) => false
      case (_: ArrayType | _: MapType | _: StructType, _) => false
      case (_: NumericType, FloatType | DoubleType) => true
      case (_, to) if Cast.canUpCast(from, to) => true
      case (StringType | BooleanType | _: NumericType, BooleanType | _: NumericType) => c.evalMode != EvalMode.ANSI
      case (StringType, DateType | TimestampType) => c.evalMode != EvalMode.ANSI
      case _ => false
    })
  }

  /** Whether the type is a date or a timestamp. By name, because the classes of nanosecond timestamps exist only since
    * Spark 4.3.
    */
  private def isTime(t: DataType): Boolean = t == DateType || t.typeName.startsWith("timestamp")

  /** Digits of MathContext.DECIMAL128, to which negation rounds decimals. */
  private val Digits = 34

  private def isListed(e: Expression): Boolean = e match {
    case _: Alias | _: SortOrder | _: And | _: Or | _: Not | _: BinaryComparison | _: In | _: InSet => true
    case _: IsNull | _: IsNotNull | _: IsNaN | _: AtLeastNNonNulls | _: Coalesce => true
    case _: Greatest | _: Least | _: KnownNotNull | _: KnownFloatingPointNormalized | _: NormalizeNaNAndZero => true
    case _: StartsWith | _: EndsWith | _: Contains | _: Substring | _: Upper | _: Lower | _: Length |
        _: String2TrimExpression | _: ConcatWs =>
      true
    // A double may be too large for a BIGINT.
    case _: Floor | _: Ceil => false
    case Round(x, Literal(n: Int, _), _) => isWide(x) && math.abs(n) <= Digits
    case BRound(x, Literal(n: Int, _), _) => isWide(x) && math.abs(n) <= Digits
    case _: UnaryMathExpression | _: UnaryLogExpression | _: BinaryMathExpression => true
    case _: BitwiseAnd | _: BitwiseOr | _: BitwiseXor | _: BitwiseNot => true
    case _: Year | _: Quarter | _: Month | _: DayOfMonth | _: DateDiff | _: DateAdd | _: DateSub | _: Hour | _: Minute |
        _: Second =>
      true
    case _: Concat => e.dataType.isInstanceOf[StringType]
    case _: SortArray | _: Size => true
    case _: GetStructField | _: CreateNamedStruct | _: Murmur3Hash | _: XxHash64 | _: UnscaledValue => true
    case _: RankLike | _: RowNumberLike | _: NthValue | _: Lag | _: Lead => true
    case _: WindowSpecDefinition | _: SpecialFrameBoundary | UnspecifiedFrame | SpecifiedWindowFrame(RowFrame, _, _) =>
      true
    // Other boundaries are added to the ordering column, which may overflow.
    case SpecifiedWindowFrame(RangeFrame, _: SpecialFrameBoundary, _: SpecialFrameBoundary) => true
    case _: Partitioning | _: BloomFilterMightContain => true
    case _ => false
  }

  /** Whether an aggregate function fails for no input. Ignores sums that overflow because there are too many integers.
    *
    * @param isOfPart whether the input is a subset of the input in stock Spark
    */
  def function(f: AggregateFunction, isOfPart: Boolean = true): Boolean = f match {
    case _: Count | _: Min | _: Max | _: MinBy | _: MaxBy | _: First | _: Last => true
    case _: StddevPop | _: StddevSamp | _: VariancePop | _: VarianceSamp => true
    case _: BitAggregate | _: ApproximatePercentile | _: HyperLogLogPlusPlus => true
    // May need too much memory.
    case _: CollectList | _: CollectSet => isOfPart
    case s: Sum => wraps(s, s.evalContext.evalMode) || (sums(s.child) && (isOfPart || !isOfLongs(s)))
    case a: Average => wraps(a, a.evalMode) || sums(a.child)
    case _ => false
  }

  /** Whether a sum has room for 10 more digits than its values. Not required for longs: in stock Spark too, a partial
    * sum may overflow depending on the order of rows and partial sums.
    */
  private def sums(e: Expression): Boolean = e.dataType match {
    case FloatType | DoubleType | ByteType | ShortType | IntegerType | LongType => true
    case d: DecimalType => d.precision + 10 <= DecimalType.MAX_PRECISION
    case _ => false
  }

  private def isShort(t: DataType): Boolean = t == ByteType || t == ShortType || t == IntegerType

  /** Whether the values are so large that a sum of few of them may overflow. */
  private def isOfLongs(s: Sum): Boolean = s.child match {
    case Cast(x, LongType, _, _) => x.dataType == LongType
    case x => x.dataType == LongType
  }

  /** Whether no result is too large for its type: decimals get as many digits as needed, up to 38. */
  private def isWide(e: Expression, digits: Int = DecimalType.MAX_PRECISION - 1): Boolean = e.dataType match {
    case FloatType | DoubleType => true
    case d: DecimalType => d.precision <= digits
    case _ => false
  }

  /** Whether overflows wrap around instead of failing. Intervals fail in every mode. */
  private def wraps(e: Expression, mode: EvalMode.Value): Boolean =
    mode != EvalMode.ANSI && e.dataType.isInstanceOf[NumericType]
}

private final class NeverFails private (functionOf: ExprId => Option[AggregateFunction], known: Guards) {
  private def all(e: Expression): Boolean = e match {
    case _: Attribute | _: BoundReference | _: Literal | _: ScalarSubquery => true
    case MakeDecimal(x, _, _, nullOnOverflow) => (nullOnOverflow || unscaled(x).isDefined) && all(x)
    case Cast(Divide(x, n: Literal, _), _: DecimalType, _, _) if unscaled(x).isDefined => known.isNotZero(n) && all(x)
    case c: Cast => NeverFails.hasAll(c) && all(c.child)
    case WindowExpression(f, spec) => !sumsLongsInOrder(f) && all(f) && all(spec)
    case AggregateExpression(f, _, _, filter, _) =>
      NeverFails.function(f) && f.children.forall(all) && filter.forall(all)
    // AND and OR do not guard their right side: Spark computes common subexpressions first.
    case If(condition, yes, no) =>
      all(condition) && knowing(condition, true).all(yes) && knowing(condition, false).all(no)
    case CaseWhen(branches, otherwise) => cases(branches, otherwise)
    case b: BinaryArithmetic => arithmetic(b) && b.children.forall(all)
    case _: UnaryMinus | _: Abs => NeverFails.isWide(e, NeverFails.Digits) && e.children.forall(all)
    case x => NeverFails.isListed(x) && x.children.forall(all)
  }

  /** Whether a window sum of longs may overflow on a subset of its input. The order of rows in a window is fixed, so
    * stock Spark does not overflow at random.
    */
  private def sumsLongsInOrder(f: Expression): Boolean = f match {
    case AggregateExpression(s: Sum, _, _, _, _) =>
      NeverFails.isOfLongs(s) && !NeverFails.wraps(s, s.evalContext.evalMode)
    case _ => false
  }

  private def arithmetic(b: BinaryArithmetic): Boolean = b match {
    case d: Divide => wraps(d) || (known.isNotZero(d.right) && NeverFails.isWide(d))
    // The negation of the least BIGINT overflows. Smaller types are cast to BIGINT.
    case IntegralDivide(Cast(x, LongType, _, _), n, _) if NeverFails.isShort(x.dataType) =>
      wraps(b) || known.isNotZero(n)
    case d: IntegralDivide => d.left.dataType == LongType && wraps(d)
    case r: Remainder => !r.dataType.isInstanceOf[DecimalType] && (wraps(r) || known.isNotZero(r.right))
    case _: Add | _: Subtract | _: Multiply => wraps(b) || NeverFails.isWide(b)
    case _ => NeverFails.isListed(b)
  }

  private def knowing(condition: Expression, isTrue: Boolean) =
    new NeverFails(functionOf, known.knowing(condition, isTrue))

  private def cases(branches: Seq[(Expression, Expression)], otherwise: Option[Expression]): Boolean =
    branches match {
      case (condition, value) +: rest =>
        all(condition) && knowing(condition, true).all(value) && knowing(condition, false).cases(rest, otherwise)
      case _ => otherwise.forall(all)
    }

  /** The aggregate function whose result the expression is. */
  private def aggregated(e: Expression): Option[AggregateFunction] = e match {
    case a: Attribute => functionOf(a.exprId)
    case WindowExpression(f: AggregateExpression, _) => Some(f.aggregateFunction)
    case _ => None
  }

  // The function, if it runs over unscaled decimals: Spark's DecimalAggregates turns its result back into a decimal.
  private def unscaled(e: Expression): Option[AggregateFunction] =
    aggregated(e).filter(_.children.exists(_.isInstanceOf[UnscaledValue]))

  private def wraps(e: BinaryArithmetic): Boolean = NeverFails.wraps(e, e.evalMode)
}

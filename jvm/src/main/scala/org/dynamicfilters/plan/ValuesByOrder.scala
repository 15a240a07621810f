package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange, ReusedExchangeExec}
import org.apache.spark.sql.types._

/** Aggregates whose values depend on the order of their rows, as a sum of floating point numbers does in its last digit. Rows come
  * out of a shuffle in an order of chance, so a task that is retried may have other values.
  *
  * So do sums that overflow on the way to a value that fits, and whatever takes one of several values that are equal but not the
  * same: zeros of either sign, strings of a collation.
  */
private[plan] object ValuesByOrder {
  val Reason = "an aggregate's values depend on the order of its rows"

  /** Whether what an aggregate puts out depends on the order of its input, if only in the last digit. */
  def in(a: BaseAggregateExec): Boolean =
    a.aggregateExpressions.exists(isByOrder) || a.groupingExpressions.exists(isOfCollation)

  /** Whether any aggregate of a plan has such values. */
  def anywhere(plan: SparkPlan): Boolean = plan.exists {
    case a: BaseAggregateExec => in(a)
    case Hidden(below) => anywhere(below)
    case _ => false
  }

  /** Whether which rows a plan has, or what is in some of its columns, depends on such values. Where they are only handed on,
    * beside these columns, they do not matter.
    */
  def decide(plan: SparkPlan, columns: AttributeSet): Boolean = anywhere(plan) && {
    val found = new Found
    found.visit(plan)
    found.decides || columns.exists(c => found.columns(c.exprId))
  }

  private def isByOrder(e: AggregateExpression): Boolean = e.aggregateFunction match {
    case _: Count => false
    case m: Min => hasEqualValues(m.child)
    case m: Max => hasEqualValues(m.child)
    case s: Sum =>
      s.child.dataType match {
        case d: DecimalType => mayOverflow(d)
        case FloatType | DoubleType => true
        // It wraps around, or fails; `try_sum`, which has a second buffer for that, becomes NULL.
        case _ => s.aggBufferAttributes.size > 1
      }
    case v: Average =>
      v.child match {
        // Integers are summed up as DOUBLE, and these stay below 2^53 for more rows than a group has: as whole numbers, exact.
        // Spark makes such integers of short decimals (`DecimalAggregates`).
        case UnscaledValue(x) => isLongerThan(ExactDigits, x)
        case x =>
          x.dataType match {
            case ByteType | ShortType => false
            case d: DecimalType => mayOverflow(d)
            case _ => true
          }
      }
    case _ => true
  }

  /** Whether some values are equal and not the same. */
  private def hasEqualValues(e: Expression): Boolean = hasFloats(e.dataType) || isOfCollation(e)

  private def hasFloats(t: DataType): Boolean = t match {
    case FloatType | DoubleType => true
    case a: ArrayType => hasFloats(a.elementType)
    case m: MapType => hasFloats(m.keyType) || hasFloats(m.valueType)
    case s: StructType => s.exists(f => hasFloats(f.dataType))
    case u: UserDefinedType[_] => hasFloats(u.sqlType)
    case _ => false
  }

  // Zeros and NaN that are grouped by Spark makes one before (`NormalizeFloatingNumbers`).
  private def isOfCollation(e: Expression): Boolean = !UnsafeRowUtils.isBinaryStable(e.dataType)

  /** 2^53 is 9 * 10^8 times as much. */
  private val ExactDigits = 7

  private def isLongerThan(digits: Int, e: Expression): Boolean = e.dataType match {
    case d: DecimalType => d.precision > digits
    case _ => true
  }

  /** Sums have ten digits more than what is summed up, but no more than there are. */
  private def mayOverflow(d: DecimalType): Boolean = d.precision + 10 > DecimalType.MAX_PRECISION

  /** A plan that is not among an operator's children. */
  private object Hidden {
    def unapply(p: SparkPlan): Option[SparkPlan] = p match {
      case r: ReusedExchangeExec => Some(r.child)
      case s: QueryStageExec => Some(s.plan)
      case a: AdaptiveSparkPlanExec => Some(a.executedPlan)
      case c: InMemoryTableScanExec => Some(c.relation.cachedPlan)
      case _ => None
    }
  }

  /** The columns with such values, from below, under all names that they have on the way. */
  private final class Found {
    var columns: Set[ExprId] = Set.empty
    var decides: Boolean = false

    private def uses(e: Expression): Boolean = e.references.exists(a => columns(a.exprId))

    private def name(list: Seq[NamedExpression]): Unit =
      columns ++= list.filter(x => !x.isInstanceOf[Attribute] && uses(x)).map(_.exprId)

    /** Columns by place. */
    private def handOn(from: Seq[Attribute], to: Seq[Attribute]): Unit =
      columns ++= from.zip(to).collect { case (f, t) if columns(f.exprId) => t.exprId }

    // A broadcast is made once, and what is below it with it.
    def visit(p: SparkPlan): Unit = if (!p.isInstanceOf[BroadcastExchangeLike]) {
      p.children.foreach(visit)
      p match {
        case c: InMemoryTableScanExec =>
          visit(c.relation.cachedPlan)
          handOn(c.relation.cachedPlan.output, c.relation.output)
          decides ||= c.predicates.exists(uses)
        case Hidden(below) =>
          visit(below)
          handOn(below.output, p.output)
        case x: ProjectExec => name(x.projectList)
        case a: BaseAggregateExec =>
          // By its values rows are told apart, and not only described.
          decides ||= a.groupingExpressions.exists(uses)
          columns ++= a.groupingExpressions.filter(isOfCollation).map(_.exprId)
          // A function's own arguments: what a final aggregate refers to is the buffer of the partial one, which alone has the
          // FILTER clause. The result has one id in both.
          columns ++= a.aggregateExpressions
            .filter(e => isByOrder(e) || uses(e.aggregateFunction) || e.filter.exists(uses))
            .map(_.resultId)
          name(a.resultExpressions)
        case u: UnionExec =>
          val output = u.output
          u.children.foreach(c => handOn(c.output, output))
        // Neither where a row goes nor in which order changes which rows there are.
        case _: Exchange | _: SortExec =>
        // Filters and joins by such values, and all of which that is not known.
        case other => decides ||= other.expressions.exists(uses)
      }
    }
  }
}

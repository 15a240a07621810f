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

/** Finds aggregates whose values depend on the order of their rows. That order is random after a shuffle, so a retried task may
  * have other values. [[Repeatable]] and [[GroupTopKPlanner]] use it.
  *
  * Examples are sums of floating point numbers (in the last digit), sums that may overflow in between, and functions that return
  * one of several equal values that differ in binary form: -0.0 and 0.0, strings of a collation.
  */
private[plan] object ValuesByOrder {

  /** Whether any aggregate of a plan has such values. */
  def anywhere(plan: SparkPlan): Boolean = plan.exists {
    case a: BaseAggregateExec => a.aggregateExpressions.exists(isByOrder) || a.groupingExpressions.exists(isOfCollation)
    case Hidden(below) => anywhere(below)
    case _ => false
  }

  /** Whether the set of a plan's rows, or a value in one of the columns, depends on such values. They may be in other columns. */
  def decide(plan: SparkPlan, columns: AttributeSet): Boolean = anywhere(plan) && {
    val lineage = new Lineage
    lineage.visit(plan)
    lineage.decides || columns.exists(c => lineage.columns(c.exprId))
  }

  private def isByOrder(e: AggregateExpression): Boolean = e.aggregateFunction match {
    case _: Count => false
    // Spark's own bloom filter of a join (`InjectRuntimeFilter`): its bits do not depend on the order of rows.
    case _: BloomFilterAggregate => false
    case m: Min => hasEqualValues(m.child)
    case m: Max => hasEqualValues(m.child)
    case s: Sum =>
      s.child.dataType match {
        case d: DecimalType => mayOverflow(d)
        case FloatType | DoubleType => true
        // Integer sums wrap around, or fail, in any order. `try_sum` returns NULL on overflow; it has a second buffer.
        case _ => s.aggBufferAttributes.size > 1
      }
    case v: Average =>
      v.child match {
        // Sums of small integers as DOUBLE are exact below 2^53. Spark makes such integers of short decimals
        // (`DecimalAggregates`).
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

  /** Whether the type has equal values that differ in binary form. Nested types may. */
  private def hasEqualValues(e: Expression): Boolean = e.dataType match {
    case FloatType | DoubleType | _: ArrayType | _: MapType | _: StructType | _: UserDefinedType[_] => true
    case _ => isOfCollation(e)
  }

  // Not for floats as grouping keys: Spark normalizes these (`NormalizeFloatingNumbers`).
  private def isOfCollation(e: Expression): Boolean = !UnsafeRowUtils.isBinaryStable(e.dataType)

  /** 2^53 is 9 * 10^8 times as large as such a number. */
  private val ExactDigits = 7

  private def isLongerThan(digits: Int, e: Expression): Boolean = e.dataType match {
    case d: DecimalType => d.precision > digits
    case _ => true
  }

  /** The type of a sum has ten more digits than its input, up to the maximal precision. */
  private def mayOverflow(d: DecimalType): Boolean = d.precision + 10 > DecimalType.MAX_PRECISION

  /** Matches operators with a plan that is not among their children. */
  private object Hidden {
    def unapply(p: SparkPlan): Option[SparkPlan] = p match {
      case r: ReusedExchangeExec => Some(r.child)
      case s: QueryStageExec => Some(s.plan)
      case a: AdaptiveSparkPlanExec => Some(a.executedPlan)
      case c: InMemoryTableScanExec => Some(c.relation.cachedPlan)
      case _ => None
    }
  }

  /** Follows columns with such values up the plan, through aliases. */
  private final class Lineage {
    var columns: Set[ExprId] = Set.empty
    var decides: Boolean = false

    private def uses(e: Expression): Boolean = e.references.exists(a => columns(a.exprId))

    private def name(list: Seq[NamedExpression]): Unit =
      columns ++= list.filter(x => !x.isInstanceOf[Attribute] && uses(x)).map(_.exprId)

    /** Columns of the output that take such values by position. */
    private def passOn(from: Seq[Attribute], to: Seq[Attribute]): Unit =
      columns ++= from.zip(to).collect { case (f, t) if columns(f.exprId) => t.exprId }

    // Spark runs the plan below a broadcast once.
    def visit(p: SparkPlan): Unit = if (!p.isInstanceOf[BroadcastExchangeLike]) {
      p.children.foreach(visit)
      p match {
        case c: InMemoryTableScanExec =>
          visit(c.relation.cachedPlan)
          passOn(c.relation.cachedPlan.output, c.relation.output)
          decides ||= c.predicates.exists(uses)
        case Hidden(below) =>
          visit(below)
          passOn(below.output, p.output)
        case x: ProjectExec => name(x.projectList)
        case a: BaseAggregateExec =>
          // Such values as grouping keys decide which rows there are.
          decides ||= a.groupingExpressions.exists(uses)
          columns ++= a.groupingExpressions.filter(isOfCollation).map(_.exprId)
          // Partial and final aggregate have one result id. Only the partial one has the arguments and the FILTER clause; the final
          // one refers to its buffer.
          columns ++= a.aggregateExpressions
            .filter(e => isByOrder(e) || uses(e.aggregateFunction) || e.filter.exists(uses))
            .map(_.resultId)
          name(a.resultExpressions)
        case u: UnionExec =>
          val output = u.output
          u.children.foreach(c => passOn(c.output, output))
        // These change neither the set of rows nor their values.
        case _: Exchange | _: SortExec =>
        // Filters, joins and unknown operators.
        case other => decides ||= other.expressions.exists(uses)
      }
    }
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
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
    case r: ReusedExchangeExec => anywhere(r.child)
    case s: QueryStageExec => anywhere(s.plan)
    case a: AdaptiveSparkPlanExec => anywhere(a.executedPlan)
    case c: InMemoryTableScanExec => anywhere(c.relation.cachedPlan)
    case _ => false
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
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  EqualTo, Expression, In, InSet, IsNotNull, Like, RLike, StringPredicate
}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage

/** Estimated size of a join side. Serves to compare the two sides, and to leave out filters that cannot pay.
  *
  * Spark's own estimates do not serve: without column statistics, a join has the product of its sides' sizes, and a filter
  * does not reduce its input.
  *
  * @param selectivity share of the keys of its tables that is left, from 0 to 1
  */
final case class Estimate(rows: Double, selectivity: Double)

/** Rows and bytes to be read, by table statistics. */
final case class Reading(rows: Double, bytes: BigInt) {
  def +(other: Reading): Reading = Reading(rows + other.rows, bytes + other.bytes)
}

object Estimates {

  // Share of rows that a condition leaves, as in Selinger et al., 1979.
  private[plan] val Equality = 0.1
  private[plan] val Comparison = 1.0 / 3
  private val Least = Equality * Equality

  /** Lower limit for the combined selectivity of independent conditions. */
  private[plan] val LeastOfTwo = Least * Least

  /** Groups, as a share of the rows grouped. */
  private val Groups = 0.5

  /** A build side of more keys without a condition excludes hardly anything. Fewer rows are not worth measuring. */
  private[plan] val ManyRows = 100000L

  def estimate(plan: LogicalPlan): Estimate = plan match {
    case s: LogicalQueryStage =>
      val planned = estimate(s.logicalPlan)
      // A finished stage has exact statistics.
      s.stats.rowCount.fold(planned)(n => planned.copy(rows = n.toDouble))
    case leaf: LeafNode =>
      val stats = leaf.stats
      Estimate(stats.rowCount.getOrElse(stats.sizeInBytes / width(leaf)).toDouble, 1)
    case f: Filter =>
      val (below, kept) = (estimate(f.child), share(f.condition))
      Estimate(below.rows * kept, below.selectivity * kept)
    case j: Join => joined(j.joinType, estimate(j.left), estimate(j.right))
    case a: Aggregate =>
      val below = estimate(a.child)
      if (a.groupingExpressions.isEmpty) Estimate(1, below.selectivity) else below.copy(rows = below.rows * Groups)
    case u: Union =>
      val all = u.children.map(estimate)
      Estimate(all.map(_.rows).sum, all.map(_.selectivity).max)
    case l: GlobalLimit => atMost(l, l.maxRows)
    case l: LocalLimit => estimate(l.child)
    case other if other.children.size == 1 => estimate(other.children.head)
    case other => Estimate((other.stats.sizeInBytes / width(other)).toDouble, 1)
  }

  /** The estimate of a join of two sides. */
  def joined(kind: JoinType, l: Estimate, r: Estimate): Estimate = kind match {
    case _: InnerLike =>
      // A foreign key join: each row of the larger side has one match, if the other side's conditions leave it.
      val (most, other) = if (l.rows / l.selectivity >= r.rows / r.selectivity) (l, r) else (r, l)
      Estimate(most.rows * other.selectivity, math.max(LeastOfTwo, l.selectivity * r.selectivity))
    case LeftSemi => Estimate(l.rows * r.selectivity, l.selectivity * r.selectivity)
    case LeftAnti | LeftOuter | LeftSingle | ExistenceJoin(_) => l
    case RightOuter => r
    case _ => Estimate(l.rows + r.rows, 1)
  }

  /** Size of the tables of a plan, without those that finished or running stages read. */
  def reading(plan: LogicalPlan): Reading = plan match {
    case _: LogicalQueryStage => Reading(0, 0)
    case leaf: LeafNode => Reading(estimate(leaf).rows, leaf.stats.sizeInBytes)
    case other => other.children.map(reading).foldLeft(Reading(0, 0))(_ + _)
  }

  private def atMost(plan: UnaryNode, rows: Option[Long]): Estimate = {
    val below = estimate(plan.child)
    rows.filter(_ < below.rows).fold(below)(n => Estimate(n.toDouble, below.selectivity * n / math.max(1, below.rows)))
  }

  private def width(plan: LogicalPlan): BigInt = math.max(1, plan.output.map(_.dataType.defaultSize).sum)

  private def share(condition: Expression): Double = math.max(
    Least,
    Conjuncts(condition).map {
      case _: IsNotNull => 1.0
      // As PostgreSQL, which estimates a pattern like an equality.
      case _: EqualTo | _: In | _: InSet | _: StringPredicate | _: Like | _: RLike => Equality
      case _ => Comparison
    }.product
  )
}

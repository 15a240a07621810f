package org.dynamicfilters.plan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningExpression, Literal}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, BroadcastQueryStageExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.operators.{BuildKeyTapExec, SpecScan, TopKTapExec}

/** Finds the exchanges of a plan that Spark computes once for several places (exchange reuse). A filter for one place would
  * drop rows that the others need. [[DynamicFilterRule]] makes one for each run, for the planners; [[BuildSides.share]] puts
  * taps by its groups.
  *
  * Includes scalar subqueries and those of dynamic partition pruning. A subquery is planned without the query around it: an
  * exchange that is filtered there is computed again for the query.
  *
  * @param plan the whole plan, as far as it is known
  */
final class SharedExchanges(plan: SparkPlan, conf: SQLConf) {
  import SharedExchanges._

  private val id = ids.incrementAndGet()
  private lazy val all: Seq[SparkPlan] = withSubqueries(plan)
  private lazy val pruning: Set[SparkPlan] = all.collect { case s: SubqueryAdaptiveBroadcastExec =>
    unfiltered(executed(s.child)).canonicalized
  }.toSet

  // Canonical forms of the plans below broadcasts: a pruning subquery is used if its plan is among them.
  private lazy val broadcastPlans: Set[SparkPlan] = all.collect {
    case b: BroadcastExchangeLike => unfiltered(b.children.head).canonicalized
    case q: BroadcastQueryStageExec => unfiltered(q.broadcast.children.head).canonicalized
  }.toSet

  /** The canonical form by which Spark compares the plan when it makes a stage of it. A filtered exchange never equals an
    * unfiltered one.
    */
  private[plan] def canonical(p: SparkPlan): SparkPlan = p match {
    case q: QueryStageExec => q.canonicalized
    case e => withoutUnusedPruning(asPlanned(e)).canonicalized
  }

  /** Replaces dynamic partition pruning that has no broadcast by `true`. Adaptive execution does the same in its last rule
    * (Spark 4.1 to 4.3: `PlanAdaptiveDynamicPruningFilters`). Exchanges that differ only in such pruning are therefore
    * equal (SPARK-32509).
    */
  private def withoutUnusedPruning(p: SparkPlan): SparkPlan =
    if (pruning.isEmpty) p
    else
      p.transformAllExpressions {
        case d: DynamicPruningExpression if isUnused(d) => d.withNewChildren(Seq(Literal.TrueLiteral))
      }

  private def isUnused(d: DynamicPruningExpression): Boolean = d.child match {
    case in: InSubqueryExec =>
      in.plan match {
        case s: SubqueryAdaptiveBroadcastExec =>
          s.onlyInBroadcast && !broadcastPlans(unfiltered(executed(s.child)).canonicalized)
        case _ => false
      }
    case _ => false
  }

  // Marked before filters go in, because an exchange over filtered scans equals no other. Copies of a node keep its tags.
  if (conf.exchangeReuseEnabled) {
    val own = plan.collect { case e: Exchange => e }
    own.filter(isOfPruning).foreach(_.setTagValue(Mark, Shared(id, None)))
    // Without adaptive execution subqueries are planned already, and exchanges of two of them may be equal.
    if (own.nonEmpty || all.exists(_.isInstanceOf[BuildKeyTapExec])) {
      for ((group, i) <- several(all.filter(isExchange))(canonical).zipWithIndex; exchange <- group)
        exchange.setTagValue(Mark, Shared(id, Some(i)))
    }
  }

  /** Whether Spark computes an exchange of the plan for several places. */
  def isShared(exchange: SparkPlan): Boolean = mark(exchange).isDefined

  private def mark(exchange: SparkPlan): Option[Shared] = exchange.getTagValue(Mark).filter(_.by == id)

  /** The exchanges that were equal without filters, in groups of at least two. */
  def groups[E <: SparkPlan](exchanges: Seq[E]): Seq[Seq[E]] =
    several(exchanges.filter(mark(_).exists(_.group.isDefined)))(mark)

  /** Whether adaptive execution will use the broadcast for a pruning subquery too, which it plans later. */
  private def isOfPruning(exchange: Exchange): Boolean = exchange match {
    case b: BroadcastExchangeLike => pruning.nonEmpty && pruning(unfiltered(b.children.head).canonicalized)
    case _ => false
  }

  /** Whether a stage computes the exchange already, so that a filtered copy would be additional work. */
  def hasStage(exchange: SparkPlan): Boolean = isAmong(exchange, all.filter(_.isInstanceOf[QueryStageExec]))

  /** Whether a plan contains an equal exchange with the same filters. */
  def isIn(exchange: SparkPlan, plan: SparkPlan): Boolean =
    isAmong(exchange, plan.collect { case e if isExchange(e) => e })

  private def isAmong(exchange: SparkPlan, others: Seq[SparkPlan]): Boolean = {
    val form = canonical(exchange)
    others.exists(canonical(_) == form)
  }
}

private[plan] object SharedExchanges {
  private val ids = new AtomicLong

  /** @param by the id of the [[SharedExchanges]] that found the exchange shared
    * @param group number of the group of equal exchanges; None if an equal one is planned only when the query runs
    */
  private final case class Shared(by: Long, group: Option[Int])
  private val Mark: TreeNodeTag[Shared] = TreeNodeTag[Shared]("dynamicfilters.shared")

  private def several[E, K](some: Seq[E])(key: E => K): Seq[Seq[E]] = some.groupBy(key).values.filter(_.size > 1).toSeq

  private def isExchange(p: SparkPlan): Boolean = p.isInstanceOf[Exchange] || p.isInstanceOf[QueryStageExec]

  /** All operators, including those of subqueries and stages; a stage stands for its exchange. */
  private def withSubqueries(p: SparkPlan): Seq[SparkPlan] = {
    val below = p match {
      case q: QueryStageExec => q.plan.children
      case a: AdaptiveSparkPlanExec => Seq(a.executedPlan)
      case other => other.children
    }
    // Those of a filtered scan are those of a condition above it.
    val own = if (p.isInstanceOf[SpecScan]) Nil else p.subqueries
    p +: (below ++ own).flatMap(withSubqueries)
  }

  private def executed(p: SparkPlan): SparkPlan = p match {
    case a: AdaptiveSparkPlanExec => a.executedPlan
    case other => other
  }

  /** The plan without codegen nodes and taps: subqueries are prepared for execution before the query is planned. */
  private def asPlanned(p: SparkPlan): SparkPlan = p match {
    case _: WholeStageCodegenExec | _: InputAdapter | _: ColumnarToRowExec | _: TopKTapExec | _: BuildKeyTapExec =>
      asPlanned(p.children.head)
    case other =>
      // Copies only if a child changed, because a copy loses the cached canonical form.
      val below = other.children.map(asPlanned)
      if (below.zip(other.children).forall { case (x, y) => x eq y }) other else other.withNewChildren(below)
  }

  /** The plan also without dynamic filters. */
  private def unfiltered(p: SparkPlan): SparkPlan = asPlanned(p).transformUp { case s: SpecScan =>
    ScanPlanner.asPlanned(s)
  }
}

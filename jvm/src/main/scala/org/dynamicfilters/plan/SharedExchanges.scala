package org.dynamicfilters.plan

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange}
import org.dynamicfilters.operators.{
  BuildKeyTapExec,
  CachedScanExec,
  DynamicFilterScanExec,
  RowFilteredScanExec,
  TopKTapExec
}

/** Which exchanges of a plan Spark computes once for several places: narrowed for one of them, they could not be used for the
  * others.
  *
  * Places in subqueries count too, scalar ones and those of dynamic partition pruning. When a subquery itself is planned, the
  * query around it is not known: an exchange that is narrowed there is computed once more for the query.
  *
  * @param plan
  *   the whole plan, as far as it is known
  */
final class SharedExchanges(plan: SparkPlan) {
  import SharedExchanges._

  private lazy val used: Map[SparkPlan, Int] = uses(plan).groupBy(identity).map { case (c, same) => c -> same.size }
  private lazy val pruning: Set[SparkPlan] = withSubqueries(plan).collect { case s: SubqueryAdaptiveBroadcastExec =>
    unfiltered(running(s.child)).canonicalized
  }.toSet

  def apply(exchange: SparkPlan): Boolean =
    used.getOrElse(unfiltered(exchange).canonicalized, 0) > 1 || (exchange match {
      // Adaptive execution makes the exchange of a pruning subquery late, if it finds its like in the query.
      case b: BroadcastExchangeLike => pruning.nonEmpty && pruning(unfiltered(b.children.head).canonicalized)
      case _ => false
    })
}

private object SharedExchanges {

  /** The canonical form of each exchange, as often as it is used. */
  private def uses(plan: SparkPlan): Seq[SparkPlan] = withSubqueries(plan).collect {
    case e: Exchange => unfiltered(e).canonicalized
    case q: QueryStageExec => q.canonicalized
  }

  /** All operators, those of subqueries and of stages that run included; a stage stands for its exchange. */
  private def withSubqueries(p: SparkPlan): Seq[SparkPlan] = {
    val below = p match {
      case q: QueryStageExec => q.plan.children
      case a: AdaptiveSparkPlanExec => Seq(a.executedPlan)
      case other => other.children
    }
    p +: (below ++ p.subqueries).flatMap(withSubqueries)
  }

  private def running(p: SparkPlan): SparkPlan = p match {
    case a: AdaptiveSparkPlanExec => a.executedPlan
    case other => other
  }

  /** The plan without dynamic filters, and without what Spark puts between operators last of all: subqueries are planned
    * before the query.
    */
  private def unfiltered(p: SparkPlan): SparkPlan = p match {
    case _: WholeStageCodegenExec | _: InputAdapter | _: ColumnarToRowExec | _: TopKTapExec | _: BuildKeyTapExec =>
      unfiltered(p.children.head)
    case d: DynamicFilterScanExec => ScanPlanner.unfiltered(d)
    case r: RowFilteredScanExec => RowScans.asPlanned(r)
    case c: CachedScanExec => c.child
    case other => other.mapChildren(unfiltered)
  }
}

package org.dynamicfilters.operators

import java.util.{Collections, IdentityHashMap}

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/** Walks over physical plans. */
private[dynamicfilters] object PlanNodes {

  /** The operators of a plan, from above, including those in its stages. */
  def withStages(plan: SparkPlan): Seq[SparkPlan] = plan.flatMap {
    case q: QueryStageExec => q +: withStages(q.plan)
    case a: AdaptiveSparkPlanExec => a +: withStages(a.executedPlan)
    case other => Seq(other)
  }

  /** The operators that are reached by `below`, each once: the number of paths is exponential in nested subqueries, and in a chain
    * of cached tables that are used twice.
    */
  def reached(plan: SparkPlan)(below: SparkPlan => Seq[SparkPlan]): Iterator[SparkPlan] = {
    val seen = Collections.newSetFromMap(new IdentityHashMap[SparkPlan, java.lang.Boolean])
    def from(p: SparkPlan): Iterator[SparkPlan] =
      if (seen.add(p)) Iterator(p) ++ below(p).iterator.flatMap(from) else Iterator.empty
    from(plan)
  }

  /** The operators of a plan as it is now, including those of its stages and subqueries.
    *
    * @param cached whether to include the plans of cached data
    * @param initial whether to include initial adaptive plans: stages that are gone from an empty plan may still run
    */
  def everywhere(plan: SparkPlan, cached: Boolean, initial: Boolean): Iterator[SparkPlan] = reached(plan) { p =>
    p.subqueries ++ (p match {
      case a: AdaptiveSparkPlanExec => Option.when(initial)(a.initialPlan) ++: Seq(a.executedPlan)
      case q: QueryStageExec => Seq(q.plan)
      case r: ReusedExchangeExec => Seq(r.child)
      case c: InMemoryTableScanExec if cached => Seq(c.relation.cachedPlan)
      case other => other.children
    })
  }
}

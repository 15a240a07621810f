package org.dynamicfilters.operators

import java.util.{Collections, IdentityHashMap}

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

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
}

package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}

private[plan] object PlanNodes {

  /** The operators of a plan, from above, including those in its stages. */
  def withStages(plan: SparkPlan): Seq[SparkPlan] = plan.flatMap {
    case q: QueryStageExec => q +: withStages(q.plan)
    case a: AdaptiveSparkPlanExec => a +: withStages(a.executedPlan)
    case other => Seq(other)
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanLike
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}

/** Predicts whether adaptive execution starts a stage of a plan, so that [[DynamicFilterRule]] can skip plans without effect.
  *
  * Adaptive execution re-plans whenever a stage ends. A join of four small tables with a large one is planned four times before
  * the scan of the large table can start, and three of these plans start nothing.
  */
private[plan] object NextStages {

  /** Whether the plan starts no stage, and no running stage waits for a filter (which the plan may have lost).
    *
    * Adaptive execution re-plans before it starts a later stage. In rare cases it keeps this plan (if the new one shuffles more,
    * or a subquery has materialized an equal exchange): then the next stage runs without filters.
    */
  def hasNoEffect(plan: SparkPlan): Boolean =
    !startsStage(plan) && PlannedFilters.waitedFor(plan).forall(_.state.isSettled)

  /** As `AdaptiveSparkPlanExec.createQueryStages` of Spark 4.1 to 4.3. */
  private def startsStage(plan: SparkPlan): Boolean = {
    var starts = false
    // Whether all exchanges below the operator are materialized.
    def isReady(p: SparkPlan): Boolean = p match {
      case q: QueryStageExec => q.isMaterialized
      case e: Exchange =>
        if (isReady(e.child)) starts = true
        false
      case _: ReusedExchangeExec | _: InMemoryTableScanLike =>
        starts = true
        false
      // Visits all children, also after one that is not ready.
      case other => other.children.map(isReady).forall(identity)
    }
    isReady(plan) || starts
  }
}

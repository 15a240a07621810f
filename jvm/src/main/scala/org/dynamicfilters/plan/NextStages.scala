package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanLike
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}

/** What adaptive execution does with a plan that it has just made: it starts every stage whose inputs are there.
  *
  * It makes a new plan whenever a stage ends, as long as others run. A join of four small tables with a large one is planned
  * four times before the scan of the large table can start, and three of these plans are thrown away as they are.
  */
private[plan] object NextStages {

  /** Whether nothing that the rules do to this plan has an effect: it starts no stage, and none that runs waits for a filter,
    * which the plan may no longer have.
    *
    * Adaptive execution makes another plan before it starts a stage later. It might keep this one instead, where the other would
    * shuffle more, or start a stage of it whose like a subquery has made meanwhile; then that stage runs without filters.
    */
  def doesNotMatter(plan: SparkPlan): Boolean =
    !startsSome(plan) && PlannedFilters.waitedFor(plan).forall(_.state.isSettled)

  /** As `AdaptiveSparkPlanExec.createQueryStages` has it, of Spark 4.1 to 4.3. */
  private def startsSome(plan: SparkPlan): Boolean = {
    var some = false
    // Whether all inputs of the stage that the operator belongs to are there.
    def isReady(p: SparkPlan): Boolean = p match {
      case q: QueryStageExec => q.isMaterialized
      case e: Exchange =>
        if (isReady(e.child)) some = true
        false
      case _: ReusedExchangeExec | _: InMemoryTableScanLike =>
        some = true
        false
      // Of all children, to see what is below each.
      case other => other.children.map(isReady).forall(identity)
    }
    isReady(plan) || some
  }
}

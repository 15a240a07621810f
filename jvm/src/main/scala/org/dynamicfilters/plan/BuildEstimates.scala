package org.dynamicfilters.plan

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec

/** Estimates the rows that enter a build side's first exchange, where the tap collects their keys. [[JoinPlanner]],
  * [[JoinSides]] and [[WaitPlanner]] use it.
  *
  * A condition above that exchange (HAVING) reduces the rows of the join, not the keys of the filter: TPC-H q18 has 1.5M keys
  * below a HAVING that leaves 57.
  *
  * Filters of other joins reduce the build side as conditions do: in TPC-DS q95, three dimensions leave 147 of the 719,384
  * rows of `web_sales` whose order numbers filter two other scans of that table.
  */
object BuildEstimates {

  /** @return None if nothing is known of the side */
  def estimate(build: SparkPlan): Option[Estimate] = below(build, build).orElse(planned(build))

  private def planned(side: SparkPlan): Option[Estimate] = JoinSides.logical(side).map(Estimates.estimate)

  /** None if there is no exchange.
    *
    * @param whole the build side: the estimates of joins within it include their filters already
    */
  private def below(plan: SparkPlan, whole: SparkPlan): Option[Estimate] = plan match {
    case e: Exchange => planned(e.children.head).map(narrowed(_, e.children.head, whole))
    case q: ExchangeQueryStageExec =>
      // A finished stage has exact statistics.
      planned(q).map(e => if (q.isMaterialized) e else narrowed(e, q.plan, whole))
    case _: SortExec | _: FilterExec | _: ProjectExec | _: AQEShuffleReadExec | _: BaseAggregateExec =>
      below(plan.children.head, whole)
    case j: BaseJoinExec =>
      (below(j.left, whole), below(j.right, whole)) match {
        case (None, None) => None
        case (left, right) =>
          for (l <- left.orElse(planned(j.left)); r <- right.orElse(planned(j.right)))
            yield Estimates.joined(j.joinType, l, r)
      }
    case _ => None
  }

  private def narrowed(estimate: Estimate, plan: SparkPlan, whole: SparkPlan): Estimate = {
    val filters = PlannedFilters.filters(plan)
    if (filters.isEmpty) estimate
    else {
      val within = BuildSides.taps(whole).map(_.ref.id).toSet
      // Filters of one build side by several keys exclude the same rows: they count once.
      val outside = filters
        .filterNot(f => within.contains(f.id))
        .distinctBy(_.build)
      val share = outside.map(_.facts.expectedShare).product
      Estimate(estimate.rows * share, math.max(Estimates.LeastOfTwo, estimate.selectivity * share))
    }
  }
}

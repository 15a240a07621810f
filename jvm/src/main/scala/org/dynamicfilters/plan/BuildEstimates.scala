package org.dynamicfilters.plan

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec

/** What is expected of the keys that a build side collects, which is what goes into its exchanges.
  *
  * A condition that comes after them, as HAVING does after an aggregate, leaves fewer rows for the join, but not for the
  * filter: TPC-H's query 18 once collected 1.5M order keys for a HAVING that leaves 57 of them.
  *
  * Filters that come from joins above leave rows out of the build side as conditions do: of TPC-DS's query 95, three dimensions
  * leave 147 of the 719,384 rows of `web_sales` whose order numbers filter the two other scans of that table.
  */
object BuildEstimates {

  /** @return
    *   None if nothing is known of the side
    */
  def of(build: SparkPlan): Option[Estimate] = below(build, build).orElse(planned(build))

  private def planned(side: SparkPlan): Option[Estimate] = JoinSides.logical(side).map(Estimates.of)

  /** None without an exchange.
    *
    * @param whole
    *   the build side: what joins within it leave out is known of these
    */
  private def below(plan: SparkPlan, whole: SparkPlan): Option[Estimate] = plan match {
    case e: Exchange => planned(e.children.head).map(narrowed(_, e.children.head, whole))
    case q: ExchangeQueryStageExec =>
      // What has run is known.
      planned(q).map(e => if (q.isMaterialized) e else narrowed(e, q.plan, whole))
    case _: SortExec | _: FilterExec | _: ProjectExec | _: AQEShuffleReadExec | _: BaseAggregateExec =>
      below(plan.children.head, whole)
    case j: BaseJoinExec =>
      // Each side once: joins lie below joins.
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
      // The keys of one build side, and their tuples, leave out the same rows.
      val outside = filters
        .filterNot(f => within.contains(f.id))
        .distinctBy(_.build)
      val share = outside.map(_.expectedShare).product
      Estimate(estimate.rows * share, math.max(Estimates.LeastOfTwo, estimate.selectivity * share))
    }
  }
}

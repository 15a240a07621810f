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
  */
object BuildEstimates {

  /** @return
    *   None if nothing is known of the side
    */
  def of(build: SparkPlan): Option[Estimate] = below(build).orElse(planned(build))

  private def planned(side: SparkPlan): Option[Estimate] = JoinSides.logical(side).map(Estimates.of)

  /** None without an exchange. */
  private def below(plan: SparkPlan): Option[Estimate] = plan match {
    case e: Exchange => planned(e.children.head)
    case q: ExchangeQueryStageExec => planned(q)
    case _: SortExec | _: FilterExec | _: ProjectExec | _: AQEShuffleReadExec | _: BaseAggregateExec =>
      below(plan.children.head)
    case j: BaseJoinExec =>
      // Each side once: joins lie below joins.
      (below(j.left), below(j.right)) match {
        case (None, None) => None
        case (left, right) =>
          for (l <- left.orElse(planned(j.left)); r <- right.orElse(planned(j.right)))
            yield Estimates.joined(j.joinType, l, r)
      }
    case _ => None
  }
}

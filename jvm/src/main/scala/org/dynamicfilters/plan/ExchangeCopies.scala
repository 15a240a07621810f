package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.dynamicfilters.operators.{FilteredScan, PlanNodes}
import org.dynamicfilters.scan.Wait

/** Decides whether one filter is worth a copy of an exchange that Spark would compute once for several places. [[JoinPlanner]]
  * makes one for each filter.
  *
  * Shared by n places, a table is read and shuffled once, but each place sorts and joins all rows. Filtered for each place, it
  * is read n times, and all else is done for the rows that pass. If reading, shuffling and the rest cost about the same, two
  * copies pay if less than half of the rows pass, eight if less than a quarter do. Estimates are rough, so the limit is a
  * tenth, the selectivity of one equality. TPC-DS q04, q11, q31, q64 and q74 join the same sales with dates of another year in
  * each place.
  *
  * A copy computes everything below the exchange again, except for exchanges there, so the filtered scan must be most of it.
  * Broadcasts are never copied: they are small, and a second hash table takes memory.
  */
final class ExchangeCopies(build: SparkPlan, shared: SharedExchanges) {
  import ExchangeCopies._

  /** Whether this filter caused a copy. */
  def isMade: Boolean = made
  private var made = false

  /** Whether the filter is complete before the scan starts. Without adaptive execution, Spark makes broadcasts before the job
    * that needs them.
    */
  def isInTime(adaptive: Boolean, wait: Wait): Boolean =
    if (adaptive) wait == Wait.UntilReady else build.isInstanceOf[BroadcastExchangeLike]

  /** Whether a copy of the exchange pays. */
  def pays(exchange: SparkPlan, columns: Seq[Attribute]): Boolean = exchange match {
    case _: ShuffleExchangeLike if isNarrowed(exchange) => true
    case _: ShuffleExchangeLike =>
      val pays = isSelective && isMostlyOneScan(exchange, columns) && !shared.hasStage(exchange) &&
        // In a self-join, the build side has the rows of the exchange itself.
        !shared.isIn(exchange, build) &&
        // Copies must agree: a sum of floating point numbers, computed twice, may differ.
        Repeatable.elsewhere(exchange)
      made |= pays
      pays
    case _ => false
  }

  // By conditions on one table. What share of keys a join or an aggregate leaves is unknown: customers of one year's sales
  // may be all customers. Dynamic filters on the build side do not count, because they may come too late (TPC-DS q95).
  private lazy val isSelective =
    isOfOneTable(build) && JoinSides.logical(build).exists(Estimates.estimate(_).selectivity <= Estimates.Equality)
}

private object ExchangeCopies {
  private def isOfOneTable(plan: SparkPlan): Boolean = !PlanNodes.withStages(plan).exists {
    case _: BaseJoinExec | _: BaseAggregateExec => true
    case _ => false
  }

  // Filtered by another join, the exchange differs from those of other places already.
  private def isNarrowed(plan: SparkPlan): Boolean = plan.exists {
    case s: FilteredScan => s.joinFilters.nonEmpty
    case _ => false
  }

  /** Whether most rows read below the exchange come from the scan of the columns. */
  private def isMostlyOneScan(exchange: SparkPlan, columns: Seq[Attribute]): Boolean = {
    def rows(plan: SparkPlan) = JoinSides.logical(plan).map(Estimates.reading(_).rows)
    val scan = exchange.collectLeaves().find(leaf => columns.forall(leaf.outputSet.contains))
    (for (s <- scan; own <- rows(s); all <- rows(exchange)) yield own * 2 >= all).getOrElse(false)
  }
}

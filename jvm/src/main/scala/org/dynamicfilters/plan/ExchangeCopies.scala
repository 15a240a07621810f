package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.dynamicfilters.operators.FilteredScan
import org.dynamicfilters.scan.Wait

/** Whether a filter is worth a copy of an exchange that Spark would compute once for several places.
  *
  * Used n times, a table is read, written and sent once, but each place sorts and joins all of its rows. Narrowed for each
  * place, it is read n times, and the rest is done for the rows that pass: with reading, writing and what comes after at about
  * the same price, two copies pay where less than half of the rows pass, and eight where less than a quarter do. What a planner
  * knows of that is no more than a guess, hence a tenth: that of one equality. Of TPC-DS q04, q11, q31, q64 and q74, the same
  * sales are joined with dates of another year in each place.
  *
  * What else is below the exchange is computed once more, too, so the scan has to be most of it. Other exchanges below it are
  * still shared. Broadcasts are small; and whoever narrows a hash table that others use has two of them in memory.
  *
  * @param build
  *   the build side whose keys the filter has
  */
final class ExchangeCopies(build: SparkPlan, shared: SharedExchanges) {
  import ExchangeCopies._

  /** Whether there is one because of this filter. */
  def isMade: Boolean = made
  private var made = false

  /** Whether the filter is there before rows are read that it leaves out. Without adaptive execution broadcasts are made before
    * the job that needs them.
    */
  def isInTime(adaptive: Boolean, wait: Wait): Boolean =
    if (adaptive) wait == Wait.UntilReady else build.isInstanceOf[BroadcastExchangeLike]

  /** @param exchange
    *   used elsewhere
    * @param columns
    *   of it, that are filtered
    */
  def pays(exchange: SparkPlan, columns: Seq[Attribute]): Boolean = exchange match {
    case _: ShuffleExchangeLike if isNarrowed(exchange) => true
    case _: ShuffleExchangeLike =>
      val pays = isSelective && isMostlyOneScan(exchange, columns) && !shared.isMade(exchange) &&
        // Joined with itself, it has no other keys: the condition is its own.
        !shared.isIn(exchange, build) &&
        // Computed once, a sum of floating point numbers equals itself in all places.
        Repeatable.elsewhere(exchange)
      made |= pays
      pays
    case _ => false
  }

  // Conditions on a table say which share of its keys is left. What a join or an aggregate leaves of another table's is open:
  // customers of one year's sales may be all customers. Nor does it count what filters leave of the table, which may come too
  // late: of TPC-DS q95, `web_returns` was read before its filter was there.
  private lazy val isSelective =
    isOfOneTable(build) && JoinSides.logical(build).exists(Estimates.of(_).selectivity <= Estimates.Equality)
}

private object ExchangeCopies {
  private def isOfOneTable(plan: SparkPlan): Boolean = plan match {
    case q: QueryStageExec => isOfOneTable(q.plan)
    case _: BaseJoinExec | _: BaseAggregateExec => false
    case other => other.children.forall(isOfOneTable)
  }

  // By another join: it is no longer the same as elsewhere.
  private def isNarrowed(plan: SparkPlan): Boolean = plan.exists {
    case s: FilteredScan => s.joinFilters.nonEmpty
    case _ => false
  }

  /** Whether most rows that are read below it are of the scan that the columns come from, as they are. */
  private def isMostlyOneScan(exchange: SparkPlan, columns: Seq[Attribute]): Boolean = {
    def rows(plan: SparkPlan) = JoinSides.logical(plan).map(Estimates.reading(_).rows)
    val scan = exchange.collectLeaves().find(leaf => columns.forall(leaf.outputSet.contains))
    (for (s <- scan; own <- rows(s); all <- rows(exchange)) yield own * 2 >= all).getOrElse(false)
  }
}

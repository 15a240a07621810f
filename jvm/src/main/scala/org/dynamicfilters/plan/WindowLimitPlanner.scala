package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.DenseRank
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.window.WindowGroupLimitExec
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.operators.TopKTapExec

/** `rank() OVER (ORDER BY x) <= k` and `dense_rank()`, without a partition key: Spark puts a limit by rank under the sort's
  * exchange, which is a TopK with ties. (`row_number() <= k` Spark makes a TopK itself.)
  *
  * With a partition key each group would need a bound of its own, and a row group holds rows of most groups: the filter would
  * have to be looked up for each row, and could skip nothing larger than a row.
  */
object WindowLimitPlanner {

  /** @return
    *   the operator's new child, or why it produces no filter; None if it is not the one that takes its rows from the scan
    */
  def plan(w: WindowGroupLimitExec, conf: SQLConf): Option[Either[String, SparkPlan]] = {
    // The tap goes under the sort: above it, all rows have been read before the first one is seen.
    val (input, sorted) = w.child match {
      case s: SortExec => (s.child, (tapped: SparkPlan) => s.withNewChildren(Seq(tapped)))
      case other => (other, (tapped: SparkPlan) => tapped)
    }
    input match {
      case _: TopKTapExec | _: WindowGroupLimitExec | _: Exchange | _: ExchangeQueryStageExec | _: AQEShuffleReadExec =>
        None
      case _ if w.partitionSpec.nonEmpty => Some(Left("a limit in each group needs a bound for each group"))
      case _ =>
        val wanted = TopKPlanner.Wanted(
          w.orderSpec.head,
          w.limit,
          tiesFree = false,
          distinct = w.rankLikeFunction.isInstanceOf[DenseRank]
        )
        Some(TopKPlanner.tapped(input, wanted, w, conf).map(sorted))
    }
  }
}

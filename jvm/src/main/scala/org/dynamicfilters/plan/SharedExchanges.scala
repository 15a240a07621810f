package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.Exchange

/** Which exchanges of a plan Spark computes once for several places: narrowed for one of them, they could not be used for the
  * others.
  *
  * @param plan
  *   the whole plan, as far as it is known
  */
final class SharedExchanges(plan: SparkPlan) {
  private lazy val timesUsed: Map[SparkPlan, Int] =
    plan
      .collect { case e: Exchange => e.canonicalized; case q: QueryStageExec => q.canonicalized }
      .groupBy(identity)
      .map { case (c, same) => c -> same.size }

  def apply(exchange: SparkPlan): Boolean = timesUsed.getOrElse(exchange.canonicalized, 0) > 1
}

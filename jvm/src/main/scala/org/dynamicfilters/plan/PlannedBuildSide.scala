package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.dynamicfilters.state.BuildSideFacts

/** What plans say of a build side. Asked once, because filters narrow each other's build sides: each asks all below it.
  *
  * @param side
  *   the whole side of the join
  * @param exchange
  *   the one in it whose rows the tap sees
  */
private[plan] final class PlannedBuildSide(side: SparkPlan, exchange: Exchange) extends BuildSideFacts {
  override lazy val sideHash: Int = side.canonicalized.hashCode
  override lazy val tables: Option[Seq[Any]] = TableContents.of(side)
  override lazy val listed: Seq[Any] = exchange.session +: TableContents.known(exchange)
  override lazy val repeats: Boolean = Repeatable.elsewhere(exchange.children.head)
}

package org.dynamicfilters.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.command.{DataWritingCommandExec, ExecutedCommandExec}
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.exchange.Exchange
import org.dynamicfilters.operators.{PinnedQueryExec, PlanNodes}
import org.dynamicfilters.user.{DynamicFilterPredicate, UserFilters}

/** Puts a [[PinnedQueryExec]] on top of queries that may have user filters.
  *
  * Skips plans of adaptive stages (the whole query is one leaf here), and commands, which Spark runs once.
  */
final class PinnedQueryRule(session: SparkSession) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = rooted

  private object rooted extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      if (UserFilters.everUsed && isWhole(plan) && mayUseFilters(plan)) PinnedQueryExec.over(plan) else plan

    private def isWhole(plan: SparkPlan): Boolean = plan match {
      case _: QueryStageExec | _: PinnedQueryExec => false
      case _: Exchange => !conf.adaptiveExecutionEnabled
      case _: ExecutedCommandExec | _: DataWritingCommandExec | _: V2CommandExec | _: CommandResultExec => false
      case p => !p.exists(_.isInstanceOf[QueryStageExec])
    }
  }

  /** A plan may have used a filter of its session without showing it: the optimizer evaluates conditions on literal rows, and
    * drops the operators above if no row is left.
    */
  private def mayUseFilters(plan: SparkPlan): Boolean =
    UserFilters.forSession(SparkAccess.sessionId(session)).nonEmpty ||
      PlanNodes.everywhere(plan, cached = true, initial = true).exists { p =>
        p.isInstanceOf[PinnedQueryExec] || p.expressions.exists(_.exists(_.isInstanceOf[DynamicFilterPredicate]))
      }
}

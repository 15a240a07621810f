package org.dynamicfilters.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.command.{DataWritingCommandExec, ExecutedCommandExec}
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.dynamicfilters.operators.PinnedQueryExec
import org.dynamicfilters.user.{DynamicFilterPredicate, UserFilters}

/** Puts a [[PinnedQueryExec]] on top of queries that use users' filters.
  *
  * With adaptive execution the whole query is one leaf here, and the plans of its stages come by too; those are left alone, as
  * are commands, which Spark runs once.
  */
final class PinnedQueryRule(session: SparkSession) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = rooted

  private object rooted extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      if (!UserFilters.everUsed || !isWhole(plan)) plan
      else if (usesFilters(plan) || mayHaveUsed(plan)) PinnedQueryExec.over(plan)
      else plan
  }

  private def isWhole(plan: SparkPlan): Boolean = plan match {
    case _: Exchange | _: QueryStageExec | _: PinnedQueryExec => false
    case _: ExecutedCommandExec | _: DataWritingCommandExec | _: V2CommandExec | _: CommandResultExec => false
    case p => !p.exists(_.isInstanceOf[QueryStageExec])
  }

  private def usesFilters(plan: SparkPlan): Boolean =
    plan.exists { p =>
      p.expressions.exists(_.exists {
        case _: DynamicFilterPredicate => true
        case s: ExecSubqueryExpression => usesFilters(s.plan)
        case _ => false
      }) || (p match {
        case _: PinnedQueryExec => true
        case a: AdaptiveSparkPlanExec => usesFilters(a.inputPlan)
        case r: ReusedExchangeExec => usesFilters(r.child)
        case c: InMemoryTableScanExec => usesFilters(c.relation.cachedPlan)
        case _ => false
      })
    }

  /** The optimizer evaluates conditions on rows that stand in the query itself: no trace of the filter is left. */
  private def mayHaveUsed(plan: SparkPlan): Boolean =
    plan.exists {
      case _: LocalTableScanExec => true
      case a: AdaptiveSparkPlanExec => mayHaveUsed(a.inputPlan)
      case _ => false
    } && UserFilters.of(SparkAccess.sessionId(session)).nonEmpty
}

package org.dynamicfilters.plan

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.dynamicfilters.Settings
import org.dynamicfilters.produce.TopKTapExec
import org.dynamicfilters.report.Rejected

/** Makes producers of operators and puts their filters into scans.
  *
  * Runs in two places, in this order, and is idempotent, so that the places need not know of each other:
  *   - adaptive execution: among the query stage preparation rules, on the whole plan, at the start and whenever it is planned
  *     anew (nodes put in before are gone by then);
  *   - otherwise, and for every adaptive stage: before Spark inserts columnar transitions.
  *
  * A failure leaves the plan as it is.
  *
  * @param adaptive
  *   which of the two places this is
  */
final class DynamicFilterRule(adaptive: Boolean) extends Rule[SparkPlan] with Logging {
  override def apply(plan: SparkPlan): SparkPlan =
    if (!Settings.get(conf, Settings.Enabled) || isStreaming(plan)) plan
    else {
      val used = orElseAsIs("user", plan)(new UserPlanner(_, conf)())
      val sorted = orElseAsIs("TopK", used)(_.transformUp { case t: TakeOrderedAndProjectExec => topK(t) })
      orElseAsIs("join", sorted)(joins)
    }

  private def orElseAsIs(what: String, plan: SparkPlan)(change: SparkPlan => SparkPlan): SparkPlan =
    try change(plan)
    catch {
      case e @ (NonFatal(_) | _: LinkageError) =>
        logWarning(s"Dynamic filters: planning failed, the query runs without $what filters", e)
        plan
    }

  // Batches of a stream share state that outlives a query.
  private def isStreaming(plan: SparkPlan): Boolean = plan.exists(_.logicalLink.exists(_.isStreaming))

  /** Without adaptive execution plans have no stages; a plan that has some is one of its stages, and was seen as a whole. */
  private def joins(plan: SparkPlan): SparkPlan =
    if (!Settings.get(conf, Settings.JoinEnabled)) plan
    else if (!adaptive && plan.exists(_.isInstanceOf[QueryStageExec])) plan
    else if (!plan.exists(_.isInstanceOf[BaseJoinExec])) plan
    else new JoinPlanner(plan, conf, adaptive)()

  private def topK(t: TakeOrderedAndProjectExec): SparkPlan = t.child match {
    case _: TopKTapExec => t
    case _ if !Settings.get(conf, Settings.TopKEnabled) => t
    case _ =>
      TopKPlanner.plan(t, conf) match {
        case Right(child) => t.withNewChildren(Seq(child))
        case Left(reason) =>
          t.setTagValue(
            DynamicFilterRule.RejectedTag,
            Rejected("topk", t.sortOrder.flatMap(_.references.map(_.name)).take(1), reason)
          )
          t
      }
  }
}

object DynamicFilterRule {

  /** Why an operator produces no filter; read when the query has ended. */
  val RejectedTag: TreeNodeTag[Rejected] = TreeNodeTag[Rejected]("dynamicfilters.rejected")

  /** Why a join makes no filter of the tuples of its keys, beside those of single keys. */
  val RejectedTupleTag: TreeNodeTag[Rejected] = TreeNodeTag[Rejected]("dynamicfilters.rejectedTuple")
}

/** Hooks the rule in where adaptive execution does not. */
final class DynamicFilterColumnarRule extends ColumnarRule {
  private val rule = new DynamicFilterRule(adaptive = false)
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}

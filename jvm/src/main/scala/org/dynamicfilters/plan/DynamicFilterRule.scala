package org.dynamicfilters.plan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{ColumnarRule, RowDataSourceScanExec, SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.execution.adaptive.{QueryStageExec, TableCacheQueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.window.WindowGroupLimitExec
import org.dynamicfilters.api.{BestRows, FilterProducer}
import org.dynamicfilters.exchange.{ExchangeCounter, ExchangeCounters}
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.operators.{
  BuildKeyTapExec, CachedScanExec, DynamicFilterScanExec, PlanNodes, RowFilteredScanExec, SourceScan, SpecScan,
  TopKTapExec
}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.{QueryReports, Rejected, ReportRows}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.Producer

/** The planner rule: makes operators filter producers, and puts their filters into scans.
  *
  * Runs in two places. It is idempotent, so a plan may pass both, in this order:
  *   - with adaptive execution: as a query stage preparation rule, on the whole plan, at the start and at each re-planning
  *     (which drops nodes that the rule inserted before);
  *   - without adaptive execution, and for each adaptive stage: before Spark inserts columnar transitions.
  *
  * A failure leaves the plan unchanged.
  *
  * @param adaptive true in the first of these places
  */
final class DynamicFilterRule(adaptive: Boolean) extends Rule[SparkPlan] with Logging {

  override def apply(plan: SparkPlan): SparkPlan =
    if (!Settings.get(conf, Settings.Enabled) || hasState(plan) || readsReports(plan)) plan
    else if (adaptive && NextStages.hasNoEffect(plan)) plan
    // Failures of other producers are caught one by one inside.
    else orElseAsIs(Producer.join, plan)(planned)

  private def planned(plan: SparkPlan): SparkPlan = {
    val fresh = if (adaptive) withoutOurs(plan) else plan
    // Before filters go in: these do not change which exchanges are equal.
    val shared = new SharedExchanges(fresh, conf)
    val used = orElseAsIs(Producer.user, fresh)(new UserPlanner(_, conf)())
    val compared = orElseAsIs(Producer.subquery, used)(subqueries)
    val sorted = orElseAsIs(Producer.topk, compared)(topKs(_, shared))
    val aggregated = orElseAsIs(Producer.aggregate, sorted)(_.transformUp { case a: BaseAggregateExec =>
      aggregate(a)
    })
    val joined = keepPartitions(orElseAsIs(Producer.join, aggregated)(joins(_, shared)))
    SourceScan.markShared(joined)
    if (adaptive) BuildSides.recordExchanges(joined) else BuildSides.recordStage(joined)
    joined
  }

  /** The plan without operators of ours. Re-planning drops most of them. It keeps those directly above a scan of cached data,
    * of which adaptive execution makes a stage.
    *
    * Adaptive execution finds the logical plan of a stage by the link of the stage's top operator, so the operator that becomes
    * the top gets that link. Otherwise the stage would be planned a second time.
    */
  private def withoutOurs(plan: SparkPlan): SparkPlan =
    if (!plan.exists(_.isInstanceOf[TableCacheQueryStageExec])) plan
    else
      plan.transformUp { case ours @ (_: CachedScanExec | _: TopKTapExec | _: BuildKeyTapExec) =>
        val below = ours.children.head
        ours.getTagValue(SparkPlan.LOGICAL_PLAN_TAG).foreach(below.setLogicalLink)
        below
      }

  /** Makes scans keep Spark's partitions if the plan has expressions that depend on a row's position in its partition (random
    * numbers), or functions of whole partitions (mapInPandas). For example, the two parts of `randomSplit` over a join share no
    * row in stock Spark, because both see the same partitions.
    *
    * Stages of an adaptive plan are skipped: the rule has decided for the whole plan, and a stage does not show how a number is
    * used above it.
    */
  private def keepPartitions(plan: SparkPlan): SparkPlan =
    if (!plan.exists(_.isInstanceOf[SpecScan]) || isStage(plan) || Repeatable.ignoresPositions(plan)) plan
    else
      plan.transform {
        case d: DynamicFilterScanExec if !d.keepsPartitions => d.copy(keepsPartitions = true)
        case r: RowFilteredScanExec if !r.keepsPartitions => r.copy(keepsPartitions = true)
      }

  private def isStage(plan: SparkPlan): Boolean =
    !adaptive && conf.adaptiveExecutionEnabled &&
      (plan.isInstanceOf[Exchange] || plan.exists(_.isInstanceOf[QueryStageExec]))

  private def orElseAsIs(what: Producer.Value, plan: SparkPlan)(change: SparkPlan => SparkPlan): SparkPlan =
    try change(plan)
    catch {
      // For example a stack overflow in a deep plan.
      case PluginFailure(e) =>
        logWarning(s"Dynamic filters: planning failed, the query runs without filters of producers of kind $what", e)
        noteFailure(what, plan, e)
        plan
    }

  // Guarded too: a missing class or method of Spark may cause both failures.
  private def noteFailure(what: Producer.Value, plan: SparkPlan, e: Throwable): Unit =
    try {
      ExchangeCounters.instance.add(ExchangeCounter.failures)
      val failed = Rejected(what, Nil, Reasons.Failed(e, "planning"))
      Option(plan.session).foreach(QueryReports.instance.note(_)(_.reject(failed)))
    } catch {
      case PluginFailure(other) => logWarning("Dynamic filters: a failure is not reported", other)
    }

  // A stream's state outlives the batch for which a filter is made.
  private def hasState(plan: SparkPlan): Boolean = plan.exists(_.isInstanceOf[StatefulOperator])

  // Queries of the report table do not appear in reports themselves: `SELECT max(query_id)` is then the user's last query.
  private def readsReports(plan: SparkPlan): Boolean = PlanNodes.withStages(plan).exists {
    case s: RowDataSourceScanExec => s.relation.isInstanceOf[ReportRows]
    case _ => false
  }

  /** Skips stages of an adaptive plan, which was planned as a whole. Plans without adaptive execution have no stages. */
  private def joins(plan: SparkPlan, shared: SharedExchanges): SparkPlan =
    if (!Settings.get(conf, Settings.JoinEnabled)) plan
    else if (!adaptive && plan.exists(_.isInstanceOf[QueryStageExec])) plan
    else if (!plan.exists(p => p.isInstanceOf[BaseJoinExec] || p.isInstanceOf[FilterProducer])) plan
    else new JoinPlanner(plan, conf, adaptive, shared)()

  private def subqueries(plan: SparkPlan): SparkPlan =
    if (Settings.get(conf, Settings.SubqueryEnabled)) new SubqueryPlanner(conf)(plan) else plan

  private def topKs(plan: SparkPlan, shared: SharedExchanges): SparkPlan =
    if (!Settings.get(conf, Settings.TopKEnabled)) plan
    else {
      val whyKeep = PushDown.whyKeep(plan, shared.isShared)
      plan.transformUp {
        // The TopK below has the filter.
        case t: TakeOrderedAndProjectExec if TopKBelowJoin.hasLowerTopK(t) => t
        case t: TakeOrderedAndProjectExec if !t.child.isInstanceOf[TopKTapExec] =>
          topK(t, t.sortOrder, new GroupTopKPlanner(t, conf, whyKeep).plan().getOrElse(TopKPlanner.plan(t, conf)))
        case p: FilterProducer => p.neededRows.collect { case b: BestRows => b }.foldLeft(p: SparkPlan)(best)
        case w: WindowGroupLimitExec => WindowLimitPlanner.plan(w, conf).fold[SparkPlan](w)(topK(w, w.orderSpec, _))
      }
    }

  /** Makes a custom operator that needs the best rows of a child a TopK producer. */
  private def best(p: SparkPlan, b: BestRows): SparkPlan = {
    val child = p.children.indexWhere(_.outputSet.contains(b.column))
    def wanted = TopKPlanner.Wanted(b.column, b.ascending, b.nullsFirst, b.limit, tiesFree = !b.ties)
    if (child < 0) reject(p, Producer.topk, Seq(b.column.name), Reasons.ColumnOfNone)
    else if (p.children(child).isInstanceOf[TopKTapExec]) p
    else withChild(p, TopKPlanner.tapped(p.children(child), wanted, p, conf), Producer.topk, Seq(b.column.name), child)
  }

  private def topK(p: SparkPlan, order: Seq[SortOrder], child: Either[Reason, SparkPlan]): SparkPlan =
    withChild(p, child, Producer.topk, order.flatMap(_.references.map(_.name)).take(1))

  /** The operator above a child with a tap, or why there is none. */
  private def withChild(
      p: SparkPlan,
      child: Either[Reason, SparkPlan],
      producer: Producer.Value,
      columns: => Seq[String],
      at: Int = 0
  ): SparkPlan = child match {
    case Right(c) =>
      DynamicFilterRule.accept(p)
      p.withNewChildren(p.children.updated(at, c))
    case Left(reason) => reject(p, producer, columns, reason)
  }

  private def aggregate(a: BaseAggregateExec): SparkPlan = a.child match {
    case _: TopKTapExec => a
    case _ if !Settings.get(conf, Settings.AggregateEnabled) || !AggregatePlanner.isCandidate(a) => a
    case _ => withChild(a, AggregatePlanner.plan(a, conf), Producer.aggregate, AggregatePlanner.columns(a))
  }

  private def reject(p: SparkPlan, producer: Producer.Value, columns: Seq[String], reason: Reason): SparkPlan = {
    DynamicFilterRule.reject(p, Rejected(producer, columns, reason))
    p
  }
}

object DynamicFilterRule {

  /** Why an operator produces no filter; read when the query has ended. */
  val RejectedTag: TreeNodeTag[Rejected] = TreeNodeTag[Rejected]("dynamicfilters.rejected")

  /** Reasons that do not replace an earlier one: at re-planning, the operator's input runs already. */
  private val TooLate = Set(Reasons.RunsAlready, Reasons.RanWithoutTap)

  /** Removes an earlier rejection of an operator from its tags and from the report, because the operator produces a filter
    * now.
    */
  private[plan] def accept(p: SparkPlan): Unit = {
    val before = p.getTagValue(RejectedTag) ++ p.logicalLink.flatMap(_.getTagValue(RejectedTag))
    if (before.nonEmpty) {
      p.unsetTagValue(RejectedTag)
      p.logicalLink.foreach(_.unsetTagValue(RejectedTag))
      QueryReports.instance.note(p.session)(report => before.foreach(report.withdraw))
    }
  }

  /** Tags an operator with the reason why it produces no filter.
    *
    * @return the tag: the earlier one if the new reason is only that planning comes too late
    */
  private[plan] def reject(p: SparkPlan, now: Rejected): Rejected = {
    // Re-planning keeps the logical operator.
    val before = if (TooLate.contains(now.reason)) p.logicalLink.flatMap(_.getTagValue(RejectedTag)) else None
    val rejected = before.getOrElse(now)
    p.logicalLink.foreach(_.setTagValue(RejectedTag, rejected))
    p.setTagValue(RejectedTag, rejected)
    rejected
  }
}

/** Runs [[DynamicFilterRule]] before columnar transitions, the second of its places. */
final class DynamicFilterColumnarRule extends ColumnarRule {
  private val rule = new DynamicFilterRule(adaptive = false)
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}

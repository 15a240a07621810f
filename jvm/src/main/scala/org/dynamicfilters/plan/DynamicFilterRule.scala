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
import org.apache.spark.sql.execution.window.WindowGroupLimitExec
import org.dynamicfilters.api.{BestRows, FilterProducer}
import org.dynamicfilters.exchange.{ExchangeCounter, ExchangeCounters}
import org.dynamicfilters.filter.OwnFailure
import org.dynamicfilters.operators.{
  BuildKeyTapExec,
  CachedScanExec,
  DynamicFilterScanExec,
  RowFilteredScanExec,
  SharedSources,
  SpecScan,
  TopKTapExec
}
import org.dynamicfilters.report.{QueryReports, Rejected, ReportRows}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{Producer, TaskFilters}

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
  import DynamicFilterRule.RejectedTag

  override def apply(plan: SparkPlan): SparkPlan =
    if (!Settings.get(conf, Settings.Enabled) || isStreaming(plan) || readsReports(plan)) plan
    else if (adaptive && NextStages.doesNotMatter(plan)) plan
    // What is left to fail here has to do with joins.
    else orElseAsIs(Producer.join, plan)(planned)

  private def planned(plan: SparkPlan): SparkPlan = {
    val fresh = if (adaptive) withoutOurs(plan) else plan
    // Filters in a plan change nothing about which of its exchanges are alike.
    val shared = new SharedExchanges(fresh, conf)
    val used = orElseAsIs(Producer.user, fresh)(new UserPlanner(_, conf)())
    val sorted = orElseAsIs(Producer.topk, used)(topKs(_, shared))
    val aggregated = orElseAsIs(Producer.aggregate, sorted)(_.transformUp { case a: BaseAggregateExec =>
      aggregate(a)
    })
    val joined = keepPartitions(orElseAsIs(Producer.join, aggregated)(joins(_, shared)))
    SharedSources.note(joined)
    if (adaptive) BuildSides.tellExchanges(joined) else BuildSides.tellStage(joined)
    joined
  }

  /** What is planned anew comes without operators of ours, but for those that belong to a scan of cached data: adaptive
    * execution makes a stage of it by itself, and keeps what stands directly above.
    *
    * The planner links the top of what is kept to the logical plan. What becomes the top needs that link: adaptive execution
    * finds the logical plan of a stage by it, and a stage that it does not find is planned again beside itself.
    */
  private def withoutOurs(plan: SparkPlan): SparkPlan =
    if (!plan.exists(_.isInstanceOf[TableCacheQueryStageExec])) plan
    else
      plan.transformUp { case ours @ (_: CachedScanExec | _: TopKTapExec | _: BuildKeyTapExec) =>
        val below = ours.children.head
        ours.getTagValue(SparkPlan.LOGICAL_PLAN_TAG).foreach(below.setLogicalLink)
        below
      }

  /** A random number goes by a row's partition and its place there. In stock Spark the two halves of a random split of a join
    * have no row in common, because both see the same partitions; so scans keep them where numbers are drawn, and where a
    * function is given whole partitions (mapInPandas). Not asked again of a stage of an adaptive plan, which does not show what
    * becomes of a number.
    */
  private def keepPartitions(plan: SparkPlan): SparkPlan =
    if (!plan.exists(_.isInstanceOf[SpecScan]) || isStage(plan) || Repeatable.isFreeOfPlace(plan)) plan
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
      // A deep plan of which Spark's own rules were not too deep.
      case OwnFailure(e) =>
        logWarning(s"Dynamic filters: planning failed, the query runs without filters of producers of kind $what", e)
        noteFailure(what, plan, e)
        plan
    }

  // What failed in planning for want of a class or a method of Spark may fail here, too.
  private def noteFailure(what: Producer.Value, plan: SparkPlan, e: Throwable): Unit =
    try {
      ExchangeCounters.instance.add(ExchangeCounter.failures)
      Option(plan.session).foreach { session =>
        val execution = session.sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty)
        val reason = s"${e.getClass.getSimpleName} while planning"
        QueryReports.instance.note(execution, session)(_.reject(Rejected(what, Nil, reason)))
      }
    } catch {
      case OwnFailure(other) => logWarning("Dynamic filters: a failure is not reported", other)
    }

  // Batches of a stream share state that outlives a query.
  private def isStreaming(plan: SparkPlan): Boolean = plan.exists(_.logicalLink.exists(_.isStreaming))

  // Who looks at the newest query would else find the question before: `WHERE query_id = (SELECT max(query_id) ...)`.
  private def readsReports(plan: SparkPlan): Boolean = plan.exists {
    case s: RowDataSourceScanExec => s.relation.isInstanceOf[ReportRows]
    case q: QueryStageExec => readsReports(q.plan)
    case _ => false
  }

  /** Without adaptive execution plans have no stages; a plan that has some is one of its stages, and was seen as a whole. */
  private def joins(plan: SparkPlan, shared: SharedExchanges): SparkPlan =
    if (!Settings.get(conf, Settings.JoinEnabled)) plan
    else if (!adaptive && plan.exists(_.isInstanceOf[QueryStageExec])) plan
    else if (!plan.exists(p => p.isInstanceOf[BaseJoinExec] || p.isInstanceOf[FilterProducer])) plan
    else new JoinPlanner(plan, conf, adaptive, shared)()

  private def topKs(plan: SparkPlan, shared: SharedExchanges): SparkPlan =
    if (!Settings.get(conf, Settings.TopKEnabled)) plan
    else {
      val groups = new GroupTopKPlanner(conf, PushDown.keepsWhole(plan, shared(_)))
      plan.transformUp {
        case t: TakeOrderedAndProjectExec if !t.child.isInstanceOf[TopKTapExec] =>
          topK(t, t.sortOrder, groups.plan(t).getOrElse(TopKPlanner.plan(t, conf)))
        case p: FilterProducer => p.neededRows.collect { case b: BestRows => b }.foldLeft(p: SparkPlan)(best)
        case w: WindowGroupLimitExec => WindowLimitPlanner.plan(w, conf).fold[SparkPlan](w)(topK(w, w.orderSpec, _))
      }
    }

  /** A custom operator that needs the best rows of a child. */
  private def best(p: SparkPlan, b: BestRows): SparkPlan = {
    val child = p.children.indexWhere(_.outputSet.contains(b.column))
    def wanted = TopKPlanner.Wanted(b.column, b.ascending, b.nullsFirst, b.limit, tiesFree = !b.ties, distinct = false)
    if (child < 0) reject(p, Producer.topk, Seq(b.column.name), "the column comes from none of the operator's children")
    else if (p.children(child).isInstanceOf[TopKTapExec]) p
    else
      TopKPlanner.tapped(p.children(child), wanted, p, conf) match {
        case Right(c) =>
          DynamicFilterRule.accept(p, RejectedTag)
          p.withNewChildren(p.children.updated(child, c))
        case Left(reason) => reject(p, Producer.topk, Seq(b.column.name), reason)
      }
  }

  private def topK(p: SparkPlan, order: Seq[SortOrder], child: Either[String, SparkPlan]): SparkPlan =
    withChild(p, child, Producer.topk, order.flatMap(_.references.map(_.name)).take(1))

  /** The operator above a child with a tap, or why there is none. */
  private def withChild(
      p: SparkPlan,
      child: Either[String, SparkPlan],
      producer: Producer.Value,
      columns: => Seq[String]
  ): SparkPlan = child match {
    case Right(c) =>
      DynamicFilterRule.accept(p, RejectedTag)
      p.withNewChildren(Seq(c))
    case Left(reason) => reject(p, producer, columns, reason)
  }

  private def aggregate(a: BaseAggregateExec): SparkPlan = a.child match {
    case _: TopKTapExec => a
    case _ if !Settings.get(conf, Settings.AggregateEnabled) || !AggregatePlanner.isCandidate(a) => a
    case _ => withChild(a, AggregatePlanner.plan(a, conf), Producer.aggregate, AggregatePlanner.columns(a))
  }

  private def reject(p: SparkPlan, producer: Producer.Value, columns: Seq[String], reason: String): SparkPlan = {
    DynamicFilterRule.reject(p, Rejected(producer, columns, reason), RejectedTag)
    p
  }
}

object DynamicFilterRule {

  /** Why an operator produces no filter; read when the query has ended. */
  val RejectedTag: TreeNodeTag[Rejected] = TreeNodeTag[Rejected]("dynamicfilters.rejected")

  /** Why a join makes no filter of the tuples of its keys, beside those of single keys. */
  val RejectedTupleTag: TreeNodeTag[Rejected] = TreeNodeTag[Rejected]("dynamicfilters.rejectedTuple")

  /** Reasons that say only that planning comes too late. */
  private val TooLate = Set(PushDown.RunsAlready, BuildKeyTapExec.RanWithoutTap)

  /** Removes an earlier rejection of an operator from its tags and from the report, because the operator produces a filter
    * now.
    */
  private[plan] def accept(p: SparkPlan, tag: TreeNodeTag[Rejected]): Unit = {
    val before = p.getTagValue(tag) ++ p.logicalLink.flatMap(_.getTagValue(tag))
    if (before.nonEmpty) {
      p.unsetTagValue(tag)
      p.logicalLink.foreach(_.unsetTagValue(tag))
      val execution = p.session.sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty)
      QueryReports.instance.note(execution, p.session)(report => before.foreach(report.withdraw))
    }
  }

  /** Notes on an operator why it produces no filter.
    *
    * @return
    *   what was noted: of an operator whose inputs run, of which nothing is left to plan, what was found before
    */
  private[plan] def reject(p: SparkPlan, now: Rejected, tag: TreeNodeTag[Rejected]): Rejected = {
    // The logical operator is what stays when it is planned anew.
    val before = if (TooLate.contains(now.reason)) p.logicalLink.flatMap(_.getTagValue(tag)) else None
    val rejected = before.getOrElse(now)
    p.logicalLink.foreach(_.setTagValue(tag, rejected))
    p.setTagValue(tag, rejected)
    rejected
  }
}

/** Hooks the rule in where adaptive execution does not. */
final class DynamicFilterColumnarRule extends ColumnarRule {
  private val rule = new DynamicFilterRule(adaptive = false)
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}

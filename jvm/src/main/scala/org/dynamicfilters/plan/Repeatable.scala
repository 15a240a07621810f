package org.dynamicfilters.plan

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, BroadcastQueryStageExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ReusedExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.dynamicfilters.api.{FilterConsumer, FilterPassThrough}
import org.dynamicfilters.operators._
import org.dynamicfilters.state.Producer

/** Whether a task that is retried sees the same again (contract 5). Only operators that are known to be repeatable are.
  *
  * Broadcast sides are computed once, so what is below them does not matter.
  */
object Repeatable {

  /** Why a retried task might see other rows, or the same in another order; None if it sees the same.
    *
    * A TopK counts rows by their place in the input, so nothing that shuffles is accepted.
    */
  def rows(plan: SparkPlan): Option[String] = check(plan, orderMatters = true)

  /** Why a retried task might see another set of rows; None if it sees the same. */
  def set(plan: SparkPlan): Option[String] = check(plan, orderMatters = false)

  /** As [[set]], of a plan whose result is collected once, as that of a broadcast: there result and keys come from the same
    * attempt of each task, so only what the query itself leaves to chance counts.
    */
  def once(plan: SparkPlan): Option[String] = plan.collectFirst {
    case p if p.expressions.exists(!_.deterministic) => s"the input is not deterministic (${p.nodeName.trim})"
    case _: SampleExec => "the input is not deterministic (a sample)"
  }

  /** Whether a task that is retried puts the same keys into a build side's exchange. */
  def keys(build: SparkPlan): Option[String] = build match {
    case b: BroadcastExchangeLike => once(b.children.head)
    case other => set(other)
  }

  private def check(plan: SparkPlan, orderMatters: Boolean): Option[String] = {
    def below: Option[String] = plan.children.iterator.flatMap(check(_, orderMatters)).nextOption()
    plan match {
      case _: BroadcastExchangeLike | _: BroadcastQueryStageExec => None
      case r: ReusedExchangeExec => check(r.child, orderMatters)
      case p if p.expressions.exists(!_.deterministic) => Some(s"the input is not deterministic (${p.nodeName.trim})")
      case _: SampleExec => Some("the input is not deterministic (a sample)")
      case d: SpecScan if d.spec.followsUpdates =>
        Some("the scan follows updates of a filter of the user's own")
      // Python functions that are not deterministic have been found above; others give one row for one, in order.
      case _: ProjectExec | _: FilterExec | _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec | _: UnionExec |
          _: GenerateExec | _: EvalPythonExec | _: ExpandExec | _: CoalesceExec | _: FileSourceScanExec |
          _: LocalTableScanExec | _: RangeExec | _: DynamicFilterScanExec | _: OneRowRelationExec |
          _: FilterPassThrough | _: FilterConsumer | _: ConsumerScanExec =>
        below
      case RowScans(scan) if orderMatters => RowScans.reordered(scan)
      case other if orderMatters => Some(PushDown.stops(other))
      // What it drops depends on time, but not what its aggregate makes of the rest.
      case t: TopKTapExec if t.filters.forall(_.producer == Producer.aggregate) => below
      case s: QueryStageExec => check(s.plan, orderMatters)
      // Cached blocks that are lost are computed anew.
      case c: InMemoryTableScanExec => check(c.relation.cachedPlan, orderMatters)
      case _: ShuffleExchangeLike | _: AQEShuffleReadExec | _: SortExec | _: BaseAggregateExec | _: SortMergeJoinExec |
          _: ShuffledHashJoinExec | _: BuildKeyTapExec | _: WholeStageCodegenExec | _: InputAdapter |
          _: ColumnarToRowTransition | _: BatchScanExec | _: RowFilteredScanExec | _: RowDataSourceScanExec =>
        below
      case a: adaptive.AdaptiveSparkPlanExec => check(a.executedPlan, orderMatters)
      case p: PinnedQueryExec => check(p.current, orderMatters)
      case _: BaseLimitExec | _: TakeOrderedAndProjectExec | _: CollectLimitExec =>
        Some("the input is not deterministic (a limit)")
      case other => Some(s"the operator ${other.nodeName.trim} is not known to give the same rows again")
    }
  }
}

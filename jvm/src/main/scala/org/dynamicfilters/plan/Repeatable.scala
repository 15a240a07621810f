package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeSet}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{
  AQEShuffleReadExec, BroadcastQueryStageExec, QueryStageExec, ShuffleQueryStageExec
}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, MicroBatchScanExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ReusedExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.dynamicfilters.api.{FilterConsumer, FilterPassThrough}
import org.dynamicfilters.operators._
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.Producer

/** Decides whether retried tasks see the same input as their first attempts (contract 5). The planners of TopKs and
  * joins ask it. Operators that are not listed count as not repeatable.
  *
  * Spark computes a broadcast once, so the plan below it does not matter.
  */
object Repeatable {

  /** Why a retried task of a TopK might see other rows, or the same rows in another order, as after a shuffle; None if
    * it sees the same. The order of cached data is not looked at, see [[readsCachedData]].
    */
  def rows(plan: SparkPlan): Option[Reason] = check(plan, inOrder = true)

  /** Whether an operator of this stage reads cached data: lost blocks may come back in another order. A TopK must then
    * keep every row that equals the bound, so that positions do not matter.
    */
  def readsCachedData(plan: SparkPlan): Boolean = plan.exists {
    case CachedScans(_) => true
    case _ => false
  }

  /** Why a retried task might see another set of rows; None if it sees the same. */
  def set(plan: SparkPlan): Option[Reason] = check(plan, inOrder = false)

  /** As [[set]], for the plan of a broadcast, which Spark collects once: rows and collected keys come from the same
    * attempt of each task, so only non-deterministic expressions and samples count.
    */
  def once(plan: SparkPlan): Option[Reason] = plan.collectFirst {
    case p if !p.expressions.forall(RowValues.isRepeatable) => notDeterministic(p)
    case _: SampleExec => Reasons.Random("a sample")
  }

  /** Whether a second execution of the plan gives the same rows, also in another query.
    *
    * Includes broadcasts and subqueries, which each query (and each cached plan) computes again.
    */
  def elsewhere(plan: SparkPlan): Boolean =
    set(plan).isEmpty && !ValuesByOrder.anywhere(plan) && runOnce(plan).forall(elsewhere)

  /** The plans of broadcasts and subqueries, which [[set]] skips because Spark runs each of them once. */
  private def runOnce(plan: SparkPlan): Seq[SparkPlan] = {
    val here = plan match {
      case b: BroadcastExchangeLike => b.children
      case r: ReusedExchangeExec => runOnce(r.child)
      case s: QueryStageExec => runOnce(s.plan)
      case a: adaptive.AdaptiveSparkPlanExec => runOnce(a.executedPlan)
      case other => other.children.flatMap(runOnce)
    }
    here ++ plan.subqueries.flatMap {
      case r: ReusedSubqueryExec => r.child.children
      case s => s.children
    }
  }

  /** Whether no expression depends on the partition of a row, or on its position there. */
  def ignoresPositions(plan: SparkPlan): Boolean = {
    val values = new RowValues.InPlan(plan)
    !plan.exists(seesPosition(_, values))
  }

  /** Whether an operator above a shuffle depends on the partition of a row. */
  def showsPartitions(plan: SparkPlan): Boolean = {
    val values = new RowValues.InPlan(plan)
    plan.exists(p => seesPosition(p, values) && readsShuffle(p))
  }

  private def readsShuffle(plan: SparkPlan): Boolean = plan.exists {
    case _: ShuffleExchangeLike | _: ShuffleQueryStageExec => true
    case r: ReusedExchangeExec => readsShuffle(r.child)
    case _ => false
  }

  /** Whether an operator depends on the partition of a row, or on its position there.
    *
    * @param values of the whole plan
    */
  def seesPosition(p: SparkPlan, values: RowValues.InPlan): Boolean =
    p.isInstanceOf[SampleExec] || OperatorRules.seesPartition(p) || !values.ignoresPosition(p)

  private def notDeterministic(p: SparkPlan) = Reasons.Random(p.nodeName.trim)

  /** Why a retried task might write other keys into a build side's exchange; None if it writes the same.
    *
    * @param columns columns of the keys
    */
  def keys(build: SparkPlan, columns: AttributeSet): Option[Reason] = build match {
    case b: BroadcastExchangeLike => once(b.children.head)
    case other => set(other).orElse(Option.when(ValuesByOrder.decide(other, columns))(Reasons.ValuesByOrder))
  }

  private def check(plan: SparkPlan, inOrder: Boolean): Option[Reason] = {
    def below: Option[Reason] = plan.children.iterator.flatMap(check(_, inOrder)).nextOption()
    plan match {
      case _: BroadcastExchangeLike | _: BroadcastQueryStageExec => None
      case r: ReusedExchangeExec => check(r.child, inOrder)
      case p if !p.expressions.forall(RowValues.isRepeatable) => Some(notDeterministic(p))
      case _: SampleExec => Some(Reasons.Random("a sample"))
      case d: SpecScan if d.spec.followsUpdates => Some(Reasons.FollowsUpdates)
      // EvalPythonExec is deterministic here, and outputs one row for each input row, in order.
      case _: ProjectExec | _: FilterExec | _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec | _: UnionExec |
          _: GenerateExec | _: EvalPythonExec | _: ExpandExec | _: CoalesceExec | _: FileSourceScanExec |
          _: LocalTableScanExec | _: RangeExec | _: DynamicFilterScanExec | _: OneRowRelationExec |
          _: FilterPassThrough | _: FilterConsumer | _: ConsumerScanExec | _: WholeStageCodegenExec | _: InputAdapter |
          _: ColumnarToRowTransition =>
        below
      // Spark computes lost blocks of cached data again.
      case CachedScans(scan) =>
        CachedScanExec.scanOf(scan) match {
          case Some(c) if inOrder =>
            val cached = c.relation.cachedPlan
            set(cached)
              .orElse(Option.when(ValuesByOrder.anywhere(cached))(Reasons.ValuesByOrder))
              .map(Reasons.CacheRows)
          case Some(c) => set(c.relation.cachedPlan)
          case None => Some(Reasons.MayDiffer(scan.nodeName.trim))
        }
      case RowScans(scan) if inOrder => RowScans.reordered(scan)
      case other if inOrder => Some(PushDown.stopsBound(other))
      // It drops other rows in each attempt, but the result of its aggregate is the same.
      case t: TopKTapExec if t.filters.forall(_.producer == Producer.aggregate) => below
      case s: QueryStageExec => check(s.plan, inOrder)
      case _: ShuffleExchangeLike | _: AQEShuffleReadExec | _: SortExec | _: BaseAggregateExec | _: SortMergeJoinExec |
          _: ShuffledHashJoinExec | _: BuildKeyTapExec | _: BatchScanExec | _: MicroBatchScanExec |
          _: RowFilteredScanExec =>
        below
      case a: adaptive.AdaptiveSparkPlanExec => check(a.executedPlan, inOrder)
      case p: PinnedQueryExec => check(p.current, inOrder)
      // Spark makes `SELECT 1 ... LIMIT 1` of an EXISTS without correlation: all rows are the same.
      case l: LimitExec if hasEqualRows(l.child) => below
      case t: TakeOrderedAndProjectExec if TopKBelowJoin.takesSameRows(t) =>
        // Its tap drops other rows in each attempt, of which the TopK takes none.
        check(belowTap(t.child), inOrder)
      case _: BaseLimitExec | _: TakeOrderedAndProjectExec | _: CollectLimitExec => Some(Reasons.Random("a limit"))
      case other => Some(Reasons.MayDiffer(other.nodeName.trim))
    }
  }

  private def belowTap(plan: SparkPlan): SparkPlan = plan match {
    case _: WholeStageCodegenExec | _: InputAdapter => belowTap(plan.children.head)
    case tap: TopKTapExec => tap.child
    case other => other
  }

  private def hasEqualRows(plan: SparkPlan): Boolean = plan match {
    case p: ProjectExec => p.projectList.forall { case Alias(e, _) => e.foldable; case _ => false }
    case _: WholeStageCodegenExec | _: InputAdapter | _: LimitExec => hasEqualRows(plan.children.head)
    case _ => false
  }
}

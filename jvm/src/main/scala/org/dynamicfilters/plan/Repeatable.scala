package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{
  AQEShuffleReadExec,
  BroadcastQueryStageExec,
  QueryStageExec,
  ShuffleQueryStageExec
}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
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
  def rows(plan: SparkPlan): Option[String] = check(plan, Order.Same)

  /** As [[rows]], but cached data that is lost may come in another order when it is computed again: for a TopK that keeps
    * every row that is as good as its bound, place does not matter.
    */
  def rowsOfCacheInAnyOrder(plan: SparkPlan): Option[String] = check(plan, Order.SameButOfCache)

  /** Why a retried task might see another set of rows; None if it sees the same. */
  def set(plan: SparkPlan): Option[String] = check(plan, Order.Any)

  /** As [[set]], of a plan whose result is collected once, as that of a broadcast: there result and keys come from the same
    * attempt of each task, so only what the query itself leaves to chance counts.
    */
  def once(plan: SparkPlan): Option[String] = plan.collectFirst {
    case p if !p.expressions.forall(RowValues.areRepeatable) => notDeterministic(p)
    case _: SampleExec => "the input is not deterministic (a sample)"
  }

  /** Whether the plan gives the same rows wherever it is run: beside itself in another query, too, and not only where Spark runs
    * it once.
    *
    * What is below a broadcast counts, and so do subqueries: a cached plan has its own of both.
    */
  def elsewhere(plan: SparkPlan): Boolean =
    set(plan).isEmpty && !ValuesByOrder.anywhere(plan) && runOnce(plan).forall(elsewhere)

  /** The plans that [[set]] does not look into, because Spark runs each of them once. */
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

  /** Whether each row gets the same values wherever it is read, and whatever is read before it. */
  def isFreeOfPlace(plan: SparkPlan): Boolean = {
    val values = new RowValues.Of(plan)
    !plan.exists(seesPlace(_, values))
  }

  /** Whether an operator shows in which partition a row is that has come through a shuffle. */
  def showsPartitions(plan: SparkPlan): Boolean = {
    val values = new RowValues.Of(plan)
    plan.exists(p => seesPlace(p, values) && readsShuffle(p))
  }

  private def readsShuffle(plan: SparkPlan): Boolean = plan.exists {
    case _: ShuffleExchangeLike | _: ShuffleQueryStageExec => true
    case r: ReusedExchangeExec => readsShuffle(r.child)
    case _ => false
  }

  /** Whether an operator shows in which partition a row is, or where in it.
    *
    * @param values
    *   of the whole plan
    */
  def seesPlace(p: SparkPlan, values: RowValues.Of): Boolean =
    p.isInstanceOf[SampleExec] || OperatorRules.seesPartition(p) || !values.areFreeOfPlace(p)

  private def notDeterministic(p: SparkPlan) = s"the input is not deterministic (${p.nodeName.trim})"

  /** Why a task that is retried might put other keys into a build side's exchange; None if it puts the same.
    *
    * @param columns
    *   that the keys are made of
    */
  def keys(build: SparkPlan, columns: AttributeSet): Option[String] = build match {
    case b: BroadcastExchangeLike => once(b.children.head)
    case other => set(other).orElse(Option.when(ValuesByOrder.decide(other, columns))(ValuesByOrder.Reason))
  }

  /** Which order of rows is asked for. */
  private object Order extends Enumeration {
    val Same, SameButOfCache, Any = Value
  }

  private def check(plan: SparkPlan, order: Order.Value): Option[String] = {
    def below: Option[String] = plan.children.iterator.flatMap(check(_, order)).nextOption()
    plan match {
      case _: BroadcastExchangeLike | _: BroadcastQueryStageExec => None
      case r: ReusedExchangeExec => check(r.child, order)
      case p if !p.expressions.forall(RowValues.areRepeatable) => Some(notDeterministic(p))
      case _: SampleExec => Some("the input is not deterministic (a sample)")
      case d: SpecScan if d.spec.followsUpdates =>
        Some("the scan follows updates of a filter of the user's own")
      // Python functions that are not deterministic have been found above; others give one row for one, in order.
      case _: ProjectExec | _: FilterExec | _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec | _: UnionExec |
          _: GenerateExec | _: EvalPythonExec | _: ExpandExec | _: CoalesceExec | _: FileSourceScanExec |
          _: LocalTableScanExec | _: RangeExec | _: DynamicFilterScanExec | _: OneRowRelationExec |
          _: FilterPassThrough | _: FilterConsumer | _: ConsumerScanExec | _: WholeStageCodegenExec | _: InputAdapter |
          _: ColumnarToRowTransition =>
        below
      // Cached blocks that are lost are computed anew.
      case CachedScans(scan) =>
        CachedScanExec.scanOf(unfiltered(scan)) match {
          case Some(c) => cached(c.relation.cachedPlan, order)
          case None => Some(s"the operator ${scan.nodeName.trim} is not known to give the same rows again")
        }
      case RowScans(scan) if order != Order.Any => RowScans.reordered(scan)
      case other if order != Order.Any => Some(PushDown.stops(other))
      // What it drops depends on time, but not what its aggregate makes of the rest.
      case t: TopKTapExec if t.filters.forall(_.producer == Producer.aggregate) => below
      case s: QueryStageExec => check(s.plan, order)
      case _: ShuffleExchangeLike | _: AQEShuffleReadExec | _: SortExec | _: BaseAggregateExec | _: SortMergeJoinExec |
          _: ShuffledHashJoinExec | _: BuildKeyTapExec | _: BatchScanExec | _: RowFilteredScanExec =>
        below
      case a: adaptive.AdaptiveSparkPlanExec => check(a.executedPlan, order)
      case p: PinnedQueryExec => check(p.current, order)
      case _: BaseLimitExec | _: TakeOrderedAndProjectExec | _: CollectLimitExec =>
        Some("the input is not deterministic (a limit)")
      case other => Some(s"the operator ${other.nodeName.trim} is not known to give the same rows again")
    }
  }

  private def unfiltered(scan: SparkPlan): SparkPlan = scan match {
    case c: CachedScanExec => c.child
    case other => other
  }

  private def cached(plan: SparkPlan, order: Order.Value): Option[String] = order match {
    case Order.Same => check(plan, Order.Same).map(why => s"cached data that is lost may come in another order: $why")
    case Order.SameButOfCache =>
      // A value that depends on the order of rows, as a sum of floating point numbers does, is not the same again.
      check(plan, Order.Any)
        .orElse(Option.when(ValuesByOrder.anywhere(plan))(ValuesByOrder.Reason))
        .map(why => s"cached data that is lost may come with other rows: $why")
    case Order.Any => check(plan, Order.Any)
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, NamedExpression}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{ReusedExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.operators.TopKTapExec
import org.dynamicfilters.reasons.{Reason, Reasons}

/** Makes `GROUP BY k ORDER BY k LIMIT n` and `SELECT DISTINCT k ... ORDER BY k LIMIT n` producers: the result has the n best
  * distinct keys, so rows with worse keys are not needed. [[DynamicFilterRule]] calls it.
  *
  * The tap goes below the lowest aggregate. All groups must reach the TopK: a HAVING could drop groups that were counted.
  * Without ORDER BY there is no filter: Spark may return any groups, also groups that lost rows before the bound was known.
  */
final class GroupTopKPlanner(topK: TakeOrderedAndProjectExec, conf: SQLConf, whyKeep: SparkPlan => Option[Reason]) {

  /** @return the new child of the TopK, or why it produces no filter; None if it does not sort groups by a grouping key
    */
  def plan(): Option[Either[Reason, SparkPlan]] = topK.sortOrder.head.child match {
    case key: AttributeReference if sortsGroups(topK.child, key) =>
      Some(if (isTapped(topK.child)) Right(topK.child) else down(topK.child, key, List(topK)))
    case _ => None
  }

  private def sortsGroups(plan: SparkPlan, key: Attribute): Boolean = plan match {
    case p: ProjectExec => renamed(p.projectList, key).exists(sortsGroups(p.child, _))
    case e: EvalPythonExec => e.udfs.forall(_.deterministic) && sortsGroups(e.child, key)
    case a: BaseAggregateExec => groupedBy(a, key).isDefined
    case _ => false
  }

  /** @param above operators above the plan up to the TopK, the lowest first */
  private def down(plan: SparkPlan, key: Attribute, above: List[SparkPlan]): Either[Reason, SparkPlan] = plan match {
    case p: ProjectExec =>
      if (!p.projectList.forall(_.deterministic)) Left(Reasons.NonDeterministic("projection"))
      else into(p, renamed(p.projectList, key))(down(_, _, p :: above))
    case a: BaseAggregateExec =>
      if (!a.expressions.forall(_.deterministic)) Left(Reasons.NonDeterministic("aggregate"))
      else
        for {
          tapped <- into(a, groupedBy(a, key)) { (child, column) =>
            if (isAboveAggregate(child)) down(child, column, a :: above) else belowSort(child, column)
          }
          // Groups beyond the bound may be partial. Checked last: at re-planning, the reason is that the stage below runs.
          _ <- new ExcludedRows(isFiltered = true, above, producer = Nil).withPartialGroups(a).toLeft(())
        } yield tapped
    case s: SortExec => into(s, Some(key))(down(_, _, s :: above))
    // Deterministic (see sortsGroups), one output row for each input row.
    case e: EvalPythonExec => into(e, Some(key))(down(_, _, e :: above))
    case e: ShuffleExchangeLike =>
      whyKeep(e)
        .toLeft(())
        .flatMap(_ => down(e.children.head, key, e :: above).map(c => e.withNewChildren(Seq(c))))
    case _: AQEShuffleReadExec | _: ExchangeQueryStageExec => Left(Reasons.RunsAlready)
    case other => Left(PushDown.stops(other))
  }

  private def into(p: UnaryExecNode, column: Option[Attribute])(
      below: (SparkPlan, Attribute) => Either[Reason, SparkPlan]
  ): Either[Reason, SparkPlan] =
    column.toRight(Reasons.SortKeyComputed).flatMap(below(p.child, _)).map(c => p.withNewChildren(Seq(c)))

  private def belowSort(input: SparkPlan, column: Attribute): Either[Reason, SparkPlan] = input match {
    case s: SortExec => into(s, Some(column))(belowSort)
    case other =>
      val best = TopKPlanner.Wanted(topK.sortOrder.head, topK.limit, tiesFree = false, distinct = true)
      val wanted = best.copy(key = column, keepsOrder = ValuesByOrder.anywhere(topK.child))
      TopKPlanner.tapped(other, wanted, topK, conf)
  }

  /** Whether there is a tap already, in a stage that runs at re-planning. A reused exchange has a tap for the same groups,
    * because exchanges over different filters are not equal.
    */
  private def isTapped(plan: SparkPlan): Boolean = plan match {
    case t: TopKTapExec => t.filters.forall(_.spec.distinct)
    case q: ExchangeQueryStageExec => isTapped(q.plan)
    case r: ReusedExchangeExec => isTapped(r.child)
    case _: ProjectExec | _: EvalPythonExec | _: BaseAggregateExec | _: SortExec | _: ShuffleExchangeLike |
        _: AQEShuffleReadExec | _: WholeStageCodegenExec | _: InputAdapter =>
      isTapped(plan.children.head)
    case _ => false
  }

  private def isAboveAggregate(plan: SparkPlan): Boolean = plan match {
    case _: BaseAggregateExec | _: AQEShuffleReadExec | _: ExchangeQueryStageExec => true
    case s: SortExec => isAboveAggregate(s.child)
    case e: ShuffleExchangeLike => isAboveAggregate(e.children.head)
    case _ => false
  }

  private def renamed(list: Seq[NamedExpression], key: Attribute): Option[AttributeReference] =
    list.find(_.exprId == key.exprId).flatMap(PushDown.passedOn)

  /** The input column of the aggregate that is the grouping key of a result column. */
  private def groupedBy(a: BaseAggregateExec, key: Attribute): Option[AttributeReference] =
    for {
      result <- renamed(a.resultExpressions, key)
      group <- a.groupingExpressions.find(_.exprId == result.exprId)
      column <- group match {
        case x: AttributeReference => Some(x)
        // Spark normalizes floats before it groups by them. Filters do the same.
        case Alias(x, _) => Some(JoinKeys.plain(x)).collect { case c: AttributeReference => c }
        case _ => None
      }
    } yield column
}

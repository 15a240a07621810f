package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.Traverse
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.Producer

/** Makes aggregates without grouping (min, max, min_by, max_by) producers. [[DynamicFilterRule]] calls it.
  *
  * A min is a TopK of one row. Every aggregate of the node must be one of these four, by a column, or all by the same
  * monotone expression of a column ([[MonotoneExpressions]]). A row is needed if any of them needs it, so the filters of
  * several columns are joined by OR.
  */
object AggregatePlanner {
  import TopKPlanner.Wanted

  /** Whether the operator reads input rows (not buffers of a partial aggregate), and has a min or max. */
  def isCandidate(a: BaseAggregateExec): Boolean =
    a.aggregateExpressions.forall(e => e.mode == Partial || e.mode == Complete) &&
      a.aggregateExpressions.exists(e => extremum(e.aggregateFunction).isDefined)

  /** The columns of its min and max, for reports. */
  def columns(a: BaseAggregateExec): Seq[String] =
    a.aggregateExpressions.flatMap(e => extremum(e.aggregateFunction)).flatMap(_.key.references.map(_.name)).distinct

  /** @return the new child of the aggregate, or why it produces no filter */
  def plan(a: BaseAggregateExec, conf: SQLConf): Either[Reason, SparkPlan] =
    for {
      _ <- Either.cond(a.groupingExpressions.isEmpty, (), Reasons.ExtremesByGroup)
      all <- Traverse(a.aggregateExpressions)(wantedBy)
      (input, columns) = MonotoneExpressions.asColumns(a.child, all.map(_.key))
      wanted = merge(all.zip(columns).map { case (w, column) => w.copy(key = column) })
      _ <- Either.cond(
        wanted.size <= MaxBounds || input.exists(ScanHint.on(_).contains(ScanHint.Use)),
        (),
        Reasons.ManyBounds(MaxBounds)
      )
      done <- TopKPlanner.withTap(input, wanted, a, Producer.aggregate, conf)
    } yield done

  /** With more bounds, comparing each row costs more than the few excluded row groups save. */
  private val MaxBounds = 8

  // Spark's min_by and max_by return the last of several rows with equal keys, so all of these rows must pass.
  private def extremum(f: AggregateFunction): Option[Wanted] = f match {
    case m: Min => Some(best(m.child, ascending = true, tiesFree = true))
    case m: Max => Some(best(m.child, ascending = false, tiesFree = true))
    case m: MinBy => Some(best(m.orderingExpr, ascending = true, tiesFree = false))
    case m: MaxBy => Some(best(m.orderingExpr, ascending = false, tiesFree = false))
    case _ => None
  }

  private def best(column: Expression, ascending: Boolean, tiesFree: Boolean): Wanted =
    Wanted(column, ascending, nullsFirst = false, limit = 1, tiesFree)

  private def wantedBy(e: AggregateExpression): Either[Reason, Wanted] = {
    val name = e.aggregateFunction.prettyName
    for {
      x <- extremum(e.aggregateFunction).toRight(Reasons.NeedsEveryRow(name))
      _ <- Either.cond(e.filter.isEmpty, (), Reasons.HasFilter(name))
      _ <- Either.cond(!e.isDistinct, (), Reasons.IsDistinct(name))
    } yield x
  }

  private def merge(all: Seq[Wanted]): Seq[Wanted] =
    all
      .groupBy(w => (w.key.canonicalized, w.ascending))
      .values
      .map(same => same.head.copy(tiesFree = same.forall(_.tiesFree)))
      .toSeq
      .sortBy(w => (all.indexWhere(_.key.canonicalized == w.key.canonicalized), !w.ascending))
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.{Producer, TopKRef, TopKSpec}

/** Makes aggregates without grouping (min, max, min_by, max_by) producers. [[DynamicFilterRule]] calls it.
  *
  * A min is a TopK of one row. Every aggregate of the node must be one of these four, by a column, or all by the same
  * monotone expression of a column ([[MonotoneExpressions]]). A row is needed if any of them needs it, so the filters of
  * several columns are joined by OR.
  */
object AggregatePlanner {

  /** Whether the operator reads input rows (not buffers of a partial aggregate), and has a min or max. */
  def isCandidate(a: BaseAggregateExec): Boolean =
    a.aggregateExpressions.forall(e => e.mode == Partial || e.mode == Complete) &&
      a.aggregateExpressions.exists(e => extremum(e.aggregateFunction).isDefined)

  /** The columns of its min and max, for reports. */
  def columns(a: BaseAggregateExec): Seq[String] =
    a.aggregateExpressions.flatMap(e => extremum(e.aggregateFunction)).flatMap(_.column.references.map(_.name)).distinct

  /** @return the new child of the aggregate, or why it produces no filter
    */
  def plan(a: BaseAggregateExec, conf: SQLConf): Either[Reason, SparkPlan] =
    for {
      _ <- Either.cond(a.groupingExpressions.isEmpty, (), Reasons.ExtremesByGroup)
      all <- Traverse(a.aggregateExpressions)(wantedBy)
      (input, columns) = MonotoneExpressions.asColumns(a.child, all.map(_.column))
      named <- Traverse(all.zip(columns)) { case (w, c) => attribute(c).map(at => w.copy(column = at)) }
      wanted = merge(named)
      _ <- Either.cond(
        wanted.size <= MaxBounds || input.exists(ScanHint.on(_).contains(ScanHint.Use)),
        (),
        Reasons.ManyBounds(MaxBounds)
      )
      inOrder <- TopKPlanner.isInOrder(input, wanted.map(_.column))
      specs <- Traverse(wanted)(w =>
        KeyDomain
          .forType(w.column.dataType)
          .map(TopKSpec(_, limit = 1, w.ascending, nullsFirst = false, w.tiesFree && inOrder))
      )
      refs = specs.zipWithIndex.map { case (spec, i) => TopKRef(a, spec, i, Producer.aggregate) }
      done <- TopKPlanner.withTap(input, wanted.map(_.column), refs, "the aggregated column", a.expressions, conf)
    } yield done

  /** With more bounds, comparing each row costs more than the few excluded row groups save. */
  private val MaxBounds = 8

  private final case class Wanted[+E <: Expression](column: E, ascending: Boolean, tiesFree: Boolean)

  // Spark's min_by and max_by return the last of several rows with equal keys, so all of these rows must pass.
  private def extremum(f: AggregateFunction): Option[Wanted[Expression]] = f match {
    case m: Min => Some(Wanted(m.child, ascending = true, tiesFree = true))
    case m: Max => Some(Wanted(m.child, ascending = false, tiesFree = true))
    case m: MinBy => Some(Wanted(m.orderingExpr, ascending = true, tiesFree = false))
    case m: MaxBy => Some(Wanted(m.orderingExpr, ascending = false, tiesFree = false))
    case _ => None
  }

  private def attribute(column: Expression): Either[Reason, AttributeReference] = column match {
    case a: AttributeReference => Right(a)
    case other => Left(Reasons.Computed("the aggregated column", ExpressionText.withoutValues(other)))
  }

  private def wantedBy(e: AggregateExpression): Either[Reason, Wanted[Expression]] = {
    val name = e.aggregateFunction.prettyName
    for {
      x <- extremum(e.aggregateFunction).toRight(Reasons.NeedsEveryRow(name))
      _ <- Either.cond(e.filter.isEmpty, (), Reasons.HasFilter(name))
      _ <- Either.cond(!e.isDistinct, (), Reasons.IsDistinct(name))
    } yield x
  }

  private def merge(all: Seq[Wanted[AttributeReference]]): Seq[Wanted[AttributeReference]] =
    all
      .groupBy(w => (w.column.exprId, w.ascending))
      .values
      .map(same => same.head.copy(tiesFree = same.forall(_.tiesFree)))
      .toSeq
      .sortBy(w => (all.indexWhere(_.column.exprId == w.column.exprId), !w.ascending))
}

package org.dynamicfilters.plan

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete, Count, Partial}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange}
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.execution.window.{WindowExecBase, WindowGroupLimitExec}
import org.dynamicfilters.operators.{BuildKeyTapExec, TopKTapExec}
import org.dynamicfilters.scan.NeverFails

/** Rows that a filter excludes and that go on all the same, up to its producer, which drops them: a filter is advice.
  *
  * Below the producer they may not be what they are in stock Spark. As others are gone, an outer join finds no match for them,
  * and a group or a window has lost a part of its rows. An expression that fails for what they have become, and not for what
  * they were (division by zero, overflow, a function of a user), would fail the query. So where they change, whatever is
  * computed of the change on its way must have a value for everything ([[NeverFails]]).
  */
private[plan] object ExcludedRows {

  /** What is not as in stock Spark. */
  sealed trait Change {
    def touches(e: Expression): Boolean = this match {
      case Change.Rows => true
      case Change.Columns(ids, _) => e.references.exists(a => ids(a.exprId))
    }
    def isNone: Boolean = this == Change.none
  }
  object Change {

    /** Columns of rows that are there in stock Spark, too.
      *
      * @param nulls
      *   those of them that are NULL where they are not as in stock Spark
      */
    final case class Columns(ids: Set[ExprId], nulls: Set[ExprId] = Set.empty) extends Change

    /** There are rows that stock Spark has not. */
    case object Rows extends Change

    val none: Change = Columns(Set.empty)
    def of(columns: Iterable[NamedExpression]): Change = Columns(columns.map(_.exprId).toSet)
    def nullsIn(columns: Seq[Attribute]): Change = Columns(columns.map(_.exprId).toSet, columns.map(_.exprId).toSet)
  }

  /** Why the rows of one side of a join must not be left out where those of the other stay.
    *
    * @param isLeft
    *   whether the other side, whose rows lose their matches, is the left one
    * @param isFiltered
    *   whether the filter is for all rows of that side, too
    * @param above
    *   operators above the join, up to the producer's child
    * @param producer
    *   what the producer computes of each row
    */
  def ofMatches(
      join: BaseJoinExec,
      isLeft: Boolean,
      isFiltered: Boolean,
      above: List[SparkPlan],
      producer: Seq[Expression]
  ): Option[String] = {
    val change = join.joinType match {
      case _: InnerLike | LeftSemi => Change.none
      case LeftOuter | RightOuter | LeftSingle => Change.nullsIn((if (isLeft) join.right else join.left).output)
      case ExistenceJoin(exists) => Change.of(Seq(exists))
      case _ => Change.Rows
    }
    // Where one match is enough, it may be the next one now that the condition is asked of.
    val condition = join.joinType match {
      case LeftExistence(_) => join.condition
      case _ => None
    }
    condition.filter(!NeverFails(_)).map(fails).orElse(failure(change, above, producer, isFiltered))
  }

  /** Why an aggregate's groups must not lose a part of their rows. Of groups without functions nothing shows.
    *
    * @param isFiltered
    *   whether the filter is for all of their rows
    */
  def ofGroups(
      a: BaseAggregateExec,
      isFiltered: Boolean,
      above: List[SparkPlan],
      producer: Seq[Expression]
  ): Option[String] =
    if (a.aggregateExpressions.isEmpty && a.groupingExpressions.forall(isOfEachRow)) None
    else ofParts(a, isFiltered, above, producer)

  /** Why a window's partitions must not lose a part of their rows.
    *
    * @param isFiltered
    *   whether the filter is for all of their rows
    */
  def ofWindow(
      w: SparkPlan,
      isFiltered: Boolean,
      above: List[SparkPlan],
      producer: Seq[Expression]
  ): Option[String] = ofParts(w, isFiltered, above, producer)

  private def ofParts(p: SparkPlan, isFiltered: Boolean, above: List[SparkPlan], producer: Seq[Expression]) =
    through(p, Change.none, isFiltered).fold(Some(_), failure(_, above, producer, isFiltered))

  @tailrec
  private[plan] def failure(
      change: Change,
      above: List[SparkPlan],
      producer: Seq[Expression],
      isFiltered: Boolean
  ): Option[String] =
    if (change.isNone) None
    else
      above match {
        case Nil => firstFailing(change, producer)
        case p :: rest =>
          through(p, change, isFiltered) match {
            case Left(reason) => Some(reason)
            case Right(next) => failure(next, rest, producer, isFiltered)
          }
      }

  private def firstFailing(change: Change, expressions: Seq[Expression]): Option[String] =
    expressions.find(e => change.touches(e) && !NeverFails(e)).map(fails)

  private def fails(e: Expression): String =
    s"${ExpressionText.of(e)} may fail for rows that nobody needs, which lack a part of what they are made of"

  /** What becomes of a change in an operator; or what may fail there. */
  private def through(p: SparkPlan, change: Change, isFiltered: Boolean): Either[String, Change] = p match {
    case a: BaseAggregateExec => groups(a, change)
    case w: WindowExecBase =>
      // Rows of a window that has lost others.
      w.windowExpression
        .find(!NeverFails(_))
        .map(fails)
        .orElse(firstFailing(change, w.partitionSpec ++ w.orderSpec))
        .toLeft(if (w.partitionSpec.exists(change.touches)) Change.Rows else and(change, w.windowExpression))
    case j: BaseJoinExec => joined(j, change, isFiltered)
    case w: WindowGroupLimitExec => firstFailing(change, w.expressions).toLeft(Change.Rows)
    case other => firstFailing(change, other.expressions).toLeft(other).flatMap(into(_, change))
  }

  private def and(change: Change, more: Iterable[NamedExpression]): Change = change match {
    case Change.Rows => change
    case Change.Columns(ids, nulls) => Change.Columns(ids ++ more.map(_.exprId), nulls)
  }

  /** In a join there may be very many more rows: a value in place of one that has no match, and the key of a join, may match a
    * large part of the other side. NULL matches nothing. So may all rows that stock Spark would have dropped below, unless
    * the filter is for these rows, too.
    */
  private def joined(j: BaseJoinExec, change: Change, isFiltered: Boolean): Either[String, Change] =
    if (change == Change.Rows && !isFiltered) Left(PushDown.stops(j))
    else if (!j.expressions.exists(change.touches)) Right(change)
    // A row that stock Spark has not there may be a second match.
    else if (j.joinType == LeftSingle || matchesMore(j, change)) Left(PushDown.stops(j))
    else
      // The condition is asked of other pairs than in stock Spark.
      j.expressions
        .find(!NeverFails(_))
        .map(fails)
        .toLeft(j.joinType match {
          case _ if change == Change.Rows || j.condition.exists(change.touches) => Change.Rows
          case _: InnerLike | LeftSemi => change
          case LeftOuter | RightOuter => and(change, j.output)
          case ExistenceJoin(exists) => and(change, Seq(exists))
          case _ => Change.Rows
        })

  private def matchesMore(j: BaseJoinExec, change: Change): Boolean = change match {
    case Change.Rows => false
    case Change.Columns(_, nulls) =>
      j.leftKeys.isEmpty || (j.leftKeys ++ j.rightKeys).exists(k => change.touches(k) && !isNull(k, nulls))
  }

  @tailrec
  private def isNull(key: Expression, nulls: Set[ExprId]): Boolean = key match {
    case Alias(x, _) => isNull(x, nulls)
    case a: Attribute => nulls(a.exprId)
    case Cast(x, _, _, _) => isNull(x, nulls)
    case KnownFloatingPointNormalized(x) => isNull(x, nulls)
    case NormalizeNaNAndZero(x) => isNull(x, nulls)
    case _ => false
  }

  private def into(p: SparkPlan, change: Change): Either[String, Change] = p match {
    // What is too large for a broadcast fails.
    case b: BroadcastExchangeLike if change == Change.Rows => Left(PushDown.stops(b))
    case _: ProjectExec | _: FilterExec | _: UnionExec | _: ExpandExec | _: GenerateExec | _: EvalPythonExec |
        _: SortExec | _: CoalesceExec | _: Exchange | _: QueryStageExec | _: AQEShuffleReadExec | _: InputAdapter |
        _: WholeStageCodegenExec | _: TakeOrderedAndProjectExec | _: ColumnarToRowExec | _: BuildKeyTapExec |
        _: TopKTapExec =>
      Right(change match {
        case Change.Rows => Change.Rows
        case c: Change.Columns => columns(p, c)
      })
    case other => Left(PushDown.stops(other))
  }

  private def columns(p: SparkPlan, c: Change.Columns): Change = p match {
    case p: ProjectExec =>
      val touched = p.projectList.filter(c.touches)
      val nulls = touched.filter(isNull(_, c.nulls))
      Change.Columns(touched.map(_.exprId).toSet, nulls.map(_.exprId).toSet)
    case f: FilterExec if c.touches(f.condition) => Change.Rows
    case g: GenerateExec if c.touches(g.generator) => Change.Rows
    case u: UnionExec =>
      val at = u.children.flatMap(child => child.output.indices.filter(i => c.ids(child.output(i).exprId)))
      Change.of(at.map(u.output))
    case e: ExpandExec =>
      Change.of(e.output.indices.filter(i => e.projections.exists(p => c.touches(p(i)))).map(e.output))
    case _ => c
  }

  private def groups(a: BaseAggregateExec, change: Change): Either[String, Change] = {
    val functions = a.aggregateExpressions.map(f => f.resultAttribute.exprId -> f.aggregateFunction).toMap
    val (same, others) = a.groupingExpressions.partition(k => isOfEachRow(k) && !change.touches(k))
    val keys = same.map(_.exprId).toSet
    val otherRows = change == Change.Rows || others.exists(k => isSession(k) || change.touches(k))
    // Whatever is not of the keys alone.
    val changed =
      if (otherRows) a.resultExpressions
      else a.resultExpressions.filterNot(_.references.forall(r => keys(r.exprId)))
    firstFailing(change, a.groupingExpressions)
      .orElse(a.aggregateExpressions.find(f => !failsNot(f, change, isOfPart = !otherRows)).map(fails))
      .orElse(changed.find(!NeverFails(_, functions.get, neverZero(a))).map(fails))
      .toLeft(if (otherRows) Change.Rows else Change.of(changed))
  }

  /** Whether the key of a group is what it is in each of its rows: else it is that of the first one. */
  private def isOfEachRow(key: NamedExpression): Boolean =
    UnsafeRowUtils.isBinaryStable(key.dataType) && !isSession(key)

  /** Sessions begin and end with the rows that they have. */
  private def isSession(key: NamedExpression): Boolean = key.metadata.contains(SessionWindow.marker)

  /** Groups have rows: how many is not zero, unless only some are counted. Of that the final aggregate knows nothing: Spark takes
    * the FILTER clause away there.
    */
  private def neverZero(a: BaseAggregateExec): Seq[Expression] =
    if (a.groupingExpressions.isEmpty) Nil
    else {
      val begun = a.collect { case below: BaseAggregateExec =>
        below.aggregateExpressions.filter(f => f.mode == Partial || f.mode == Complete)
      }.flatten
      begun.collect {
        case f @ AggregateExpression(Count(of), _, false, None, _) if of.forall(!_.nullable) => f.resultAttribute
      }
    }

  /** What a function is of fails only where it is not what it is in stock Spark, the function itself because there is less.
    *
    * @param isOfPart
    *   whether a group has no rows that it has not in stock Spark
    */
  private def failsNot(f: AggregateExpression, change: Change, isOfPart: Boolean): Boolean = {
    val touched = (f.aggregateFunction.children ++ f.filter).filter(change.touches)
    NeverFails.function(f.aggregateFunction, isOfPart && touched.isEmpty) && touched.forall(NeverFails(_))
  }
}

package org.dynamicfilters.plan

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
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
import org.dynamicfilters.reasons.{Reason, Reasons}

/** Decides whether excluded rows that a scan returns nevertheless can make the query fail. [[PushDown]] asks it at
  * joins, aggregates and windows.
  *
  * A filter may exclude a row in one scan and not in another. The producer drops excluded rows in the end, but below it
  * they may differ from stock Spark's: an outer join finds no match for them, a group or window has lost some of its
  * rows. An expression could then fail that does not fail in stock Spark (division by zero, overflow, a user's
  * function). So each expression between the operator and the producer that uses changed columns must never fail
  * ([[NeverFails]]).
  *
  * @param isFiltered whether all scans of the remaining rows are filtered too
  * @param above operators above the asking one, up to the producer's child, the lowest first
  * @param producer expressions that the producer evaluates for each row
  */
private[plan] final class ExcludedRows(isFiltered: Boolean, above: List[SparkPlan], producer: Seq[Expression]) {
  import ExcludedRows._

  /** Why rows of one side of a join must not be excluded while rows of the other side remain.
    *
    * @param isLeft whether the remaining side, whose rows lose their matches, is the left one
    */
  def withLostMatches(join: BaseJoinExec, isLeft: Boolean): Option[Reason] = {
    val change = join.joinType match {
      case _: InnerLike | LeftSemi => Change.none
      case LeftOuter | RightOuter | LeftSingle => Change.of((if (isLeft) join.right else join.left).output)
      case ExistenceJoin(exists) => Change.of(Seq(exists))
      case _ => Change.withMoreRows
    }
    // If one match is enough, the condition may now be evaluated for a later match.
    val condition = join.joinType match {
      case LeftExistence(_) => join.condition
      case _ => None
    }
    condition.filter(!NeverFails(_)).map(fails).orElse(failure(change))
  }

  /** Why an aggregate's groups must not lose some of their rows. Without functions, partial groups look whole. */
  def withPartialGroups(a: BaseAggregateExec): Option[Reason] =
    if (a.aggregateExpressions.isEmpty && a.groupingExpressions.forall(isOfEachRow)) None else withPartialInput(a)

  /** Why groups or window partitions of an operator must not lose some of their rows. */
  def withPartialInput(p: SparkPlan): Option[Reason] = through(p, Change.none).fold(Some(_), failure(_))

  @tailrec
  private[plan] def failure(change: Change, operators: List[SparkPlan] = above): Option[Reason] = operators match {
    case _ if change.isNone => None
    case Nil => firstFailing(change, producer)
    case p :: rest =>
      through(p, change) match {
        case Left(reason) => Some(reason)
        case Right(next) => failure(next, rest)
      }
  }

  private def firstFailing(change: Change, expressions: Seq[Expression]): Option[Reason] =
    expressions.find(e => change.touches(e) && !NeverFails(e)).map(fails)

  private def fails(e: Expression): Reason = Reasons.MayFail(ExpressionText.withoutValues(e))

  /** The change in an operator's output, or why an expression of the operator may fail. */
  private def through(p: SparkPlan, change: Change): Either[Reason, Change] = p match {
    case a: BaseAggregateExec => groups(a, change)
    case w: WindowExecBase =>
      // Window functions see partitions that have lost rows.
      w.windowExpression
        .find(!NeverFails(_))
        .map(fails)
        .orElse(firstFailing(change, w.partitionSpec ++ w.orderSpec))
        .toLeft(if (w.partitionSpec.exists(change.touches)) Change.withMoreRows else change.and(w.windowExpression))
    case j: BaseJoinExec => joined(j, change)
    case w: WindowGroupLimitExec => firstFailing(change, w.expressions).toLeft(Change.withMoreRows)
    case other => firstFailing(change, other.expressions).toLeft(other).flatMap(into(_, change))
  }

  /** Stops the filter if a join could produce many more rows than in stock Spark. Changed keys may match much of the
    * other side. So may rows that stock Spark drops below, unless all scans of these rows are filtered.
    */
  private def joined(j: BaseJoinExec, change: Change): Either[Reason, Change] =
    if (change.moreRows && !isFiltered) Left(PushDown.stops(j))
    else if (!j.expressions.exists(change.touches)) Right(change)
    // Another row may be a second match, which is an error in a LeftSingle join.
    else if (j.joinType == LeftSingle || matchesMore(j, change)) Left(PushDown.stops(j))
    else
      // The condition is evaluated for other pairs of rows than in stock Spark.
      j.expressions
        .find(!NeverFails(_))
        .map(fails)
        .toLeft(j.joinType match {
          case _ if j.condition.exists(change.touches) => Change.withMoreRows
          case _: InnerLike | LeftSemi => change
          case LeftOuter | RightOuter => change.and(j.output)
          case ExistenceJoin(exists) => change.and(Seq(exists))
          case _ => Change.withMoreRows
        })

  private def matchesMore(j: BaseJoinExec, change: Change): Boolean =
    !change.moreRows && (j.leftKeys.isEmpty || (j.leftKeys ++ j.rightKeys).exists(change.touches))

  private def into(p: SparkPlan, change: Change): Either[Reason, Change] = p match {
    // More rows may exceed the limit of a broadcast, which fails the query.
    case b: BroadcastExchangeLike if change.moreRows => Left(PushDown.stops(b))
    case _: ProjectExec | _: FilterExec | _: UnionExec | _: ExpandExec | _: GenerateExec | _: EvalPythonExec |
        _: SortExec | _: CoalesceExec | _: Exchange | _: QueryStageExec | _: AQEShuffleReadExec | _: InputAdapter |
        _: WholeStageCodegenExec | _: TakeOrderedAndProjectExec | _: ColumnarToRowExec | _: BuildKeyTapExec |
        _: TopKTapExec =>
      Right(after(p, change))
    case other => Left(PushDown.stops(other))
  }

  /** The change of an operator's output, by that of its input. */
  private def after(p: SparkPlan, change: Change): Change = p match {
    case _ if change.moreRows => change
    case p: ProjectExec => Change.of(p.projectList.filter(change.touches))
    case f: FilterExec if change.touches(f.condition) => Change.withMoreRows
    case g: GenerateExec if change.touches(g.generator) => Change.withMoreRows
    // Their output columns may have other ids than the input columns, and are not followed.
    case _: UnionExec | _: ExpandExec => Change.withMoreRows
    case _ => change
  }

  private def groups(a: BaseAggregateExec, change: Change): Either[Reason, Change] = {
    val functions = a.aggregateExpressions.map(f => f.resultAttribute.exprId -> f.aggregateFunction).toMap
    val (same, others) = a.groupingExpressions.partition(k => isOfEachRow(k) && !change.touches(k))
    val keys = same.map(_.exprId).toSet
    val otherRows = change.moreRows || others.exists(k => isSession(k) || change.touches(k))
    // All results but those of unchanged keys alone.
    val changed =
      if (otherRows) a.resultExpressions
      else a.resultExpressions.filterNot(_.references.forall(r => keys(r.exprId)))
    firstFailing(change, a.groupingExpressions)
      .orElse(a.aggregateExpressions.find(f => !neverFails(f, change, isOfPart = !otherRows)).map(fails))
      .orElse(changed.find(!NeverFails(_, functions.get)).map(fails))
      .toLeft(if (otherRows) Change.withMoreRows else Change.of(changed))
  }

  /** Whether all rows of a group have the same key in binary form: otherwise the group has the key of its first row. */
  private def isOfEachRow(key: NamedExpression): Boolean =
    UnsafeRowUtils.isBinaryStable(key.dataType) && !isSession(key)

  /** A session window begins and ends with its rows. */
  private def isSession(key: NamedExpression): Boolean = key.metadata.contains(SessionWindow.marker)

  /** Whether an aggregate function never fails for changed groups.
    *
    * @param isOfPart whether each group has a subset of its rows in stock Spark, and no others
    */
  private def neverFails(f: AggregateExpression, change: Change, isOfPart: Boolean): Boolean = {
    val touched = (f.aggregateFunction.children ++ f.filter).filter(change.touches)
    NeverFails.function(f.aggregateFunction, isOfPart && touched.isEmpty) && touched.forall(NeverFails(_))
  }
}

private[plan] object ExcludedRows {

  /** How an operator's rows may differ from stock Spark's.
    *
    * @param columns those that may have other values
    * @param moreRows whether there may be rows that stock Spark does not have
    */
  final case class Change(columns: Set[ExprId], moreRows: Boolean = false) {
    def touches(e: Expression): Boolean = moreRows || e.references.exists(a => columns(a.exprId))
    def isNone: Boolean = columns.isEmpty && !moreRows
    def and(more: Iterable[NamedExpression]): Change = copy(columns ++ more.map(_.exprId))
  }
  object Change {
    val none: Change = Change(Set.empty)
    val withMoreRows: Change = Change(Set.empty, moreRows = true)
    def of(columns: Iterable[NamedExpression]): Change = Change(columns.map(_.exprId).toSet)
  }
}

package org.dynamicfilters.plan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.{Alias, Ascending, Attribute, IntegerLiteral, Literal, SortOrder}
import org.apache.spark.sql.catalyst.plans.{LeftOuter, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{LIMIT, OUTER_JOIN, SORT}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, QueryStageExec}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.types.{DoubleType, FloatType}
import org.dynamicfilters.filter.{KeyDomain, PluginFailure}
import org.dynamicfilters.operators.BuildKeyTapExec
import org.dynamicfilters.settings.Settings

/** Repeats a TopK below an outer join whose preserved side has all sort keys:
  * {{{
  *   SELECT * FROM f LEFT JOIN d ON f.d = d.id ORDER BY f.k DESC LIMIT 5
  *
  *   Limit 5, Sort f.k            Limit 5, Sort f.k
  *     LeftOuter            ->      LeftOuter
  *       f                            Limit 5, Sort f.k, all other columns of f
  *       d                              f
  *                                    d
  * }}}
  * Each row of the preserved side gives at least one row of the join, so the best rows of the join come from the best rows of that
  * side. Which of several tied rows the upper TopK returns is free in both plans. The upper TopK stays: a row may have several
  * matches.
  *
  * The lower TopK takes the same rows in every attempt, because it sorts by all columns (contract 8). Otherwise a lost shuffle file
  * could bring other tied rows to some tasks of the join, and rows would be missing.
  *
  * If there is a scan below the lower TopK, it has a filter, and the join gets few rows, by whose keys it filters its other side. 2M
  * rows joined to 1M by a merge join took 3.9 s instead of 9.1 on a busy machine, before the other side was filtered; the case
  * `outer` of the benchmark `joins` measures it. Broadcast joins are left alone: there the filter of the upper TopK reaches the scan
  * ([[PushDown]]).
  */
object TopKBelowJoin extends Rule[LogicalPlan] with Logging {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!Settings.get(conf, Settings.Enabled) || !Settings.get(conf, Settings.TopKEnabled) || plan.isStreaming) plan
    else
      try
        plan.transformWithPruning(_.containsAllPatterns(LIMIT, SORT, OUTER_JOIN)) { case limit @ TopK(rows, sort) =>
          repeated(sort.child, sort, rows).fold[LogicalPlan](limit) { below =>
            limit.transform { case s if s eq sort => sort.withNewChildren(Seq(below)) }
          }
        }
      catch {
        case PluginFailure(e) =>
          logWarning("Dynamic filters: a TopK over an outer join stays as it is", e)
          plan
      }

  /** The plan with the TopK on the preserved side of an outer join below it; None if there is no such join. */
  private def repeated(plan: LogicalPlan, sort: Sort, rows: Int): Option[LogicalPlan] = plan match {
    case p: Project if p.projectList.forall(_.deterministic) =>
      val computed = p.projectList.collect { case a: Alias => a.exprId -> a.child }.toMap
      val order = sort.order.map(_.transformUp { case a: Attribute => computed.getOrElse(a.exprId, a) })
      repeated(p.child, sort.copy(order = order.collect { case o: SortOrder => o }), rows)
        .map(c => p.withNewChildren(Seq(c)))
    case j: Join if j.joinType == LeftOuter =>
      onSide(j, j.left, sort, rows)(isBroadcast(j.right, j.hint.rightHint)).map(l => j.copy(left = l))
    case j: Join if j.joinType == RightOuter =>
      onSide(j, j.right, sort, rows)(isBroadcast(j.left, j.hint.leftHint)).map(r => j.copy(right = r))
    case _ => None
  }

  /** The preserved side of a join with the TopK on it, or on the lowest of several joins below that keep its rows. */
  private def onSide(join: Join, side: LogicalPlan, sort: Sort, rows: Int)(
      isBroadcast: => Boolean
  ): Option[LogicalPlan] =
    repeated(side, sort, rows).orElse(best(join, side, sort, rows).filterNot(_ => isBroadcast))

  /** Whether Spark will broadcast the side that is not preserved, as far as its size is known now (`JoinSelectionHelper`). A source of
    * DataSource V2 would make a reader to tell its size.
    */
  private def isBroadcast(side: LogicalPlan, hint: Option[HintInfo]): Boolean = {
    def isSmall = conf.autoBroadcastJoinThreshold >= 0 && !side.exists(_.isInstanceOf[DataSourceV2Relation]) &&
      side.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold
    hint.flatMap(_.strategy).fold(isSmall)(_ == BROADCAST)
  }

  private def best(join: Join, side: LogicalPlan, sort: Sort, rows: Int): Option[LogicalPlan] = {
    def hasKeys = sort.order.forall(_.child match {
      case a: Attribute => side.outputSet.contains(a)
      case _ => false
    })
    def isSmall = side.maxRows.exists(_ <= rows)
    val isWanted =
      rows > 0 && rows <= Settings.get(conf, Settings.TopKMaxLimit) && rows < conf.topKSortFallbackThreshold
    // Zeros of either sign are equal in the order, but may not be in a condition.
    def isExact = join.condition.forall(!_.references.exists(a => isFloating(a) && side.outputSet.contains(a)))
    Option.when(isWanted && hasKeys && !isSmall && isExact && isRepeatable(side)) {
      val keys = sort.order.map(_.child)
      val others = side.output.filterNot(a => keys.exists(_.semanticEquals(a))).map(SortOrder(_, Ascending))
      val limit = Literal(rows)
      GlobalLimit(limit, LocalLimit(limit, sort.copy(order = sort.order ++ others, child = side)))
    }
  }

  private def isFloating(a: Attribute) = a.dataType == FloatType || a.dataType == DoubleType

  /** Whether every attempt sees the same rows, and an order by all columns decides between them. */
  private def isRepeatable(side: LogicalPlan): Boolean =
    side.output.forall(a => KeyDomain.forType(a.dataType).isRight) && !side.exists {
      case p @ (_: Project | _: Filter | _: Join | _: Union) => !p.expressions.forall(_.deterministic)
      case p => p.children.nonEmpty
    }

  /** Whether a physical TopK takes the same rows in every attempt that sees the same input: it sorts by all columns. */
  def takesSameRows(topK: TakeOrderedAndProjectExec): Boolean = topK.child.output.forall { a =>
    KeyDomain.forType(a.dataType).isRight && topK.sortOrder.exists(_.child.semanticEquals(a))
  }

  /** Whether the preserved side of the joins below has a TopK as [[apply]] makes it. Then the upper one needs no filter. */
  def hasLowerTopK(topK: TakeOrderedAndProjectExec): Boolean = {
    def below(p: SparkPlan): Boolean = p match {
      case t: TakeOrderedAndProjectExec => t.limit == topK.limit && takesSameRows(t)
      case q: QueryStageExec => below(q.plan)
      case j: BaseJoinExec if j.joinType == LeftOuter => below(j.left)
      case j: BaseJoinExec if j.joinType == RightOuter => below(j.right)
      case _: ProjectExec | _: ShuffleExchangeLike | _: SortExec | _: AQEShuffleReadExec | _: BuildKeyTapExec |
          _: WholeStageCodegenExec | _: InputAdapter =>
        below(p.children.head)
      case _ => false
    }
    below(topK.child)
  }

  /** Matches a limit of a global sort: how many rows it needs, its offset included, and the sort. A projection lies between them
    * if the result lacks a sort key.
    */
  private object TopK {
    def unapply(plan: LogicalPlan): Option[(Int, Sort)] = plan match {
      case Limit(IntegerLiteral(rows), Sorted(sort)) => Some((rows, sort))
      case OffsetAndLimit(offset, rows, Sorted(sort)) if offset.toLong + rows <= Int.MaxValue =>
        Some((offset + rows, sort))
      case _ => None
    }
  }

  private object Sorted {
    def unapply(plan: LogicalPlan): Option[Sort] = plan match {
      case s: Sort if s.global => Some(s)
      case Project(_, s: Sort) if s.global => Some(s)
      case _ => None
    }
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, IntegerLiteral, Literal, SortOrder}
import org.apache.spark.sql.catalyst.plans.{LeftOuter, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{LIMIT, OUTER_JOIN, SORT}
import org.apache.spark.sql.execution.{SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.dynamicfilters.settings.Settings

/** Repeats a TopK below an outer join whose preserved side has all sort keys:
  * {{{
  *   SELECT * FROM f LEFT JOIN d ON f.d = d.id ORDER BY f.k DESC LIMIT 5
  *
  *   Limit 5, Sort f.k            Limit 5, Sort f.k
  *     LeftOuter            ->      LeftOuter
  *       f                            Limit 5, Sort f.k
  *       d                              f
  *                                    d
  * }}}
  * Each row of the preserved side gives at least one row of the join, so the best rows of the join come from the best rows of that
  * side. Which of several tied rows are returned is free in both plans. The upper TopK stays: a row may have several matches.
  *
  * The lower TopK has a scan below it in its own stage, so it has a filter, and the join reads a few rows of the side. docs/bench/README.md has
  * what that gains. Broadcast joins are left alone: there the
  * filter of the upper TopK reaches the scan ([[PushDown]]).
  */
object TopKBelowJoin extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!Settings.get(conf, Settings.Enabled) || !Settings.get(conf, Settings.TopKEnabled) || plan.isStreaming) plan
    else
      plan.transformWithPruning(_.containsAllPatterns(LIMIT, SORT, OUTER_JOIN)) { case limit @ TopK(rows, sort) =>
        repeated(sort.child, sort, rows).fold[LogicalPlan](limit) { below =>
          limit.transform { case s if s eq sort => sort.withNewChildren(Seq(below)) }
        }
      }

  /** The plan with the TopK on the preserved side of an outer join below it; None if there is no such join. */
  private def repeated(plan: LogicalPlan, sort: Sort, rows: Int): Option[LogicalPlan] = plan match {
    case p: Project if p.projectList.forall(_.deterministic) =>
      val computed = p.projectList.collect { case a: Alias => a.exprId -> a.child }.toMap
      val order = sort.order.map(_.transformUp { case a: Attribute => computed.getOrElse(a.exprId, a) })
      repeated(p.child, sort.copy(order = order.collect { case o: SortOrder => o }), rows)
        .map(c => p.withNewChildren(Seq(c)))
    case j @ Join(left, right, LeftOuter, _, hint) if !isBroadcast(right, hint.rightHint) =>
      best(left, sort, rows).map(l => j.copy(left = l))
    case j @ Join(left, right, RightOuter, _, hint) if !isBroadcast(left, hint.leftHint) =>
      best(right, sort, rows).map(r => j.copy(right = r))
    case _ => None
  }

  /** Whether Spark will broadcast the side that is not preserved, as far as its size is known now (`JoinSelectionHelper`). */
  private def isBroadcast(side: LogicalPlan, hint: Option[HintInfo]): Boolean =
    hint.flatMap(_.strategy).fold(side.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold)(_ == BROADCAST)

  private def best(side: LogicalPlan, sort: Sort, rows: Int): Option[LogicalPlan] = {
    val hasKeys = sort.order.forall(_.child match {
      case a: Attribute => side.outputSet.contains(a)
      case _ => false
    })
    // Also ends the repetition: the optimizer applies the rule until nothing changes.
    val isSmall = side.maxRows.exists(_ <= rows)
    Option.when(hasKeys && !isSmall && rows > 0 && rows <= Settings.get(conf, Settings.TopKMaxLimit)) {
      val limit = Literal(rows)
      GlobalLimit(limit, LocalLimit(limit, sort.copy(child = side)))
    }
  }

  /** Whether there is a TopK with the same limit below a join, as [[apply]] makes it. Then the upper one needs no filter. */
  def hasLowerTopK(topK: TakeOrderedAndProjectExec): Boolean = {
    def hasBelow(p: SparkPlan): Boolean = p match {
      case t: TakeOrderedAndProjectExec => t.limit == topK.limit
      case q: QueryStageExec => hasBelow(q.plan)
      case other => other.children.exists(hasBelow)
    }
    topK.child.exists(_.isInstanceOf[BaseJoinExec]) && hasBelow(topK.child)
  }

  /** Matches a limit of a global sort: how many rows it needs, its offset included, and the sort. */
  private object TopK {
    def unapply(plan: LogicalPlan): Option[(Int, Sort)] = plan match {
      case Limit(IntegerLiteral(rows), s: Sort) if s.global => Some((rows, s))
      case OffsetAndLimit(offset, rows, s: Sort) if s.global && offset.toLong + rows <= Int.MaxValue =>
        Some((offset + rows, s))
      case _ => None
    }
  }
}

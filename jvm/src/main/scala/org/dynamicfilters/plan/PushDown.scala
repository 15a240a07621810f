package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, ExplodeBase, Inline, Stack}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, BroadcastNestedLoopJoinExec}

/** Takes a filter from its producer down to scans, by attribute id, through the operators that let it pass.
  *
  * An operator lets a filter on column c pass if dropping input rows by c only drops output rows that the filter excludes
  * too. Everything not listed stops it.
  */
final class PushDown(toScan: (FileSourceScanExec, Attribute) => Either[String, SparkPlan]) {
  import PushDown._

  /** The plan with every scan that the column comes from filtered, or why there is none. */
  def apply(plan: SparkPlan, column: Attribute): Either[String, SparkPlan] = plan match {
    case s: FileSourceScanExec => toScan(s, column)

    case p: ProjectExec =>
      if (!p.projectList.forall(_.deterministic)) Left("a non-deterministic projection is in the way")
      else
        p.projectList.find(_.exprId == column.exprId) match {
          case Some(a: AttributeReference) => into(p, p.child, a)
          case Some(Alias(a: AttributeReference, _)) => into(p, p.child, a)
          case Some(other) => Left(s"the sort key is computed: ${other.sql}")
          case None => Left(s"the sort key ${column.name} is not in the projection below")
        }

    case f: FilterExec =>
      if (f.condition.deterministic) into(f, f.child, column) else Left("a non-deterministic filter is in the way")

    case j: BroadcastHashJoinExec => intoJoin(j, j.left, j.right, j.joinType, j.buildSide, column)
    case j: BroadcastNestedLoopJoinExec => intoJoin(j, j.left, j.right, j.joinType, j.buildSide, column)

    case u: UnionExec =>
      val position = u.output.indexWhere(_.exprId == column.exprId)
      val pushed = u.children.map { c =>
        if (position < 0 || c.output(position).dataType != column.dataType)
          Left("the branches of the union differ in type")
        else apply(c, c.output(position))
      }
      if (pushed.forall(_.isLeft)) pushed.head
      else Right(u.withNewChildren(u.children.zip(pushed).map { case (c, p) => p.getOrElse(c) }))

    case g: GenerateExec =>
      g.generator match {
        case _: ExplodeBase | _: Inline | _: Stack
            if g.generator.deterministic && g.child.output.exists(_.exprId == column.exprId) =>
          into(g, g.child, column)
        case other => Left(s"the generator ${other.prettyName} is in the way")
      }

    case c: CoalesceExec => into(c, c.child, column)
    case _: DynamicFilterScanExec => Left("the scan is filtered already")
    case other => Left(stops(other))
  }

  private def into(parent: UnaryExecNode, child: SparkPlan, column: Attribute): Either[String, SparkPlan] =
    apply(child, column).map(c => parent.withNewChildren(Seq(c)))

  private def intoJoin(
      join: SparkPlan,
      left: SparkPlan,
      right: SparkPlan,
      joinType: JoinType,
      build: BuildSide,
      column: Attribute
  ): Either[String, SparkPlan] = {
    val streamed = if (build == BuildRight) left else right
    // The streamed side must be the one whose rows alone decide which output rows have the key: a streamed row that is
    // dropped must not turn a build row into an unmatched one.
    val passes = (joinType, build) match {
      case (_: InnerLike, _) => true
      case (LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_), BuildRight) => true
      case (RightOuter, BuildLeft) => true
      case _ => false
    }
    if (!streamed.output.exists(_.exprId == column.exprId))
      Left("the sort key comes from the build side of a broadcast join")
    else if (!passes) Left(s"a ${joinType.sql} join is in the way")
    else
      apply(streamed, column).map(s => join.withNewChildren(if (build == BuildRight) Seq(s, right) else Seq(left, s)))
  }
}

object PushDown {
  private def stops(plan: SparkPlan): String = plan match {
    case _: exchange.Exchange | _: adaptive.QueryStageExec =>
      "an exchange is in the way: the scan below is done before the bound is known"
    case _: SampleExec => "a sample is in the way"
    case _: BaseLimitExec | _: TakeOrderedAndProjectExec | _: CollectLimitExec => "a limit is in the way"
    case _: columnar.InMemoryTableScanExec => "the data comes from a cached plan"
    case _: CollectMetricsExec => "observed metrics are in the way"
    case other => s"the operator ${other.nodeName.trim} is in the way"
  }

  /** Why a plan might give other rows when a task is retried; None if it gives the same.
    *
    * Only operators that are known to be repeatable are accepted. Broadcast sides are computed once, so what is below them
    * does not matter.
    */
  def notRepeatable(plan: SparkPlan): Option[String] = plan match {
    case _: exchange.BroadcastExchangeLike | _: adaptive.BroadcastQueryStageExec => None
    case r: exchange.ReusedExchangeExec => notRepeatable(r.child)
    case p if p.expressions.exists(!_.deterministic) => Some(s"the input is not deterministic (${p.nodeName.trim})")
    case _: SampleExec => Some("the input is not deterministic (a sample)")
    case _: ProjectExec | _: FilterExec | _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec | _: UnionExec |
        _: GenerateExec | _: CoalesceExec | _: FileSourceScanExec | _: LocalTableScanExec | _: RangeExec |
        _: DynamicFilterScanExec | _: OneRowRelationExec =>
      plan.children.iterator.flatMap(notRepeatable(_)).nextOption()
    case other => Some(stops(other))
  }
}

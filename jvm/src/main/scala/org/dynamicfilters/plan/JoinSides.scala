package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide}
import org.apache.spark.sql.catalyst.plans.FullOuter
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.settings.Settings

/** One side of a join, which may be filtered by the keys of the other side: `probe` is this side, `build` the other one. */
final case class FilteredSide(join: BaseJoinExec, isLeft: Boolean) {
  val (probe, build) = if (isLeft) (join.left, join.right) else (join.right, join.left)

  def probeKeys: Seq[Expression] = if (isLeft) join.leftKeys else join.rightKeys
  def buildKeys: Seq[Expression] = if (isLeft) join.rightKeys else join.leftKeys
  def keys: Seq[JoinKey] =
    if (probeKeys.isEmpty) JoinKeys.ranges(join.condition, probe.outputSet, build.outputSet)
    else JoinKeys.pairs(probeKeys, buildKeys)

  /** The expressions that the join evaluates for every probe row, also for one without a match. */
  def evaluated: Seq[Expression] = if (probeKeys.isEmpty) join.condition.toSeq else probeKeys

  /** Whether Spark broadcasts the side. */
  def isBroadcast: Boolean = FilteredSide.broadcast(join).contains(if (isLeft) BuildLeft else BuildRight)

  /** Whether the side may be filtered without changing the answer. Spark runs a broadcast side first. */
  def isPermitted: Boolean = JoinSemantics.of(join)(isLeft).mayLose && !isBroadcast

  /** The join with other sides. */
  def withSides(probe: SparkPlan, build: SparkPlan): SparkPlan =
    join.withNewChildren(if (isLeft) Seq(probe, build) else Seq(build, probe))
}
object FilteredSide {

  /** The side of a join that Spark broadcasts, if any. */
  def broadcast(join: BaseJoinExec): Option[BuildSide] = join match {
    case b: BroadcastHashJoinExec => Some(b.buildSide)
    case b: BroadcastNestedLoopJoinExec => Some(b.buildSide)
    case _ => None
  }

  def both(join: BaseJoinExec): Seq[FilteredSide] =
    Seq(FilteredSide(join, isLeft = true), FilteredSide(join, isLeft = false))
}

/** Decides which side of a join is filtered by the keys of the other side. [[JoinPlanner]] uses it. */
object JoinSides {

  /** The side that is filtered, or why neither is.
    *
    * @param isHinted whether a hint asks for filters on a side. A hint overrules estimates
    */
  def choose(j: BaseJoinExec, conf: SQLConf, isHinted: FilteredSide => Boolean): Either[Reason, FilteredSide] =
    j match {
      case _: BroadcastHashJoinExec | _: BroadcastNestedLoopJoinExec =>
        val streamed = FilteredSide(j, isLeft = FilteredSide.broadcast(j).contains(BuildRight))
        if (!streamed.isPermitted) Left(needsAll(j, streamed.isLeft))
        else if (isHinted(streamed)) Right(streamed)
        else BuildEstimates.estimate(streamed.build).flatMap(notSelective(_, conf)).toLeft(streamed)
      case _: SortMergeJoinExec | _: ShuffledHashJoinExec =>
        val candidates = FilteredSide.both(j).filter(_.isPermitted)
        if (candidates.isEmpty) Left(needsAll(j, streamsLeft = true))
        else {
          val asked = candidates.filter(isHinted)
          val refused = (if (asked.isEmpty) candidates else asked).map(side => side -> whyNotSelective(side, conf))
          refused.collectFirst { case (side, None) => side }.orElse(asked.headOption).toRight(refused.head._2.get)
        }
      case other => Left(Reasons.UnknownJoin(other.nodeName.trim))
    }

  private def needsAll(j: BaseJoinExec, streamsLeft: Boolean): Reason =
    if (JoinSemantics.isNullAware(j)) Reasons.NotIn
    else {
      val sides = if (j.joinType == FullOuter) "both sides" else s"its ${if (streamsLeft) "left" else "right"} side"
      Reasons.NeedsAllRows(JoinSemantics.withArticle(j.joinType), sides)
    }

  /** Why filtering one side of a shuffled join is not expected to pay, if so. */
  private def whyNotSelective(side: FilteredSide, conf: SQLConf): Option[Reason] =
    (logical(side.probe).map(Estimates.estimate), BuildEstimates.estimate(side.build)) match {
      case (Some(p), Some(b)) =>
        if (b.rows > p.rows) Some(Reasons.NotSmaller) else notSelective(b, conf)
      case _ => None
    }

  /** Rejects a build side without any condition: it has most keys of the probe side, unless it is a short list. */
  private def notSelective(build: Estimate, conf: SQLConf): Option[Reason] = {
    val limit = math.min(Settings.get(conf, Settings.JoinMaxBuildRows), Estimates.ManyRows)
    Option.when(build.selectivity >= 1 && build.rows > limit)(Reasons.NotSelective(limit))
  }

  /** The logical plan of a side, if Spark has linked one. */
  def logical(plan: SparkPlan): Option[LogicalPlan] = plan.find(_.logicalLink.isDefined).flatMap(_.logicalLink)
}

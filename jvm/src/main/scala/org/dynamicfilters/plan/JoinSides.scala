package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.optimizer.BuildRight
import org.apache.spark.sql.catalyst.plans.FullOuter
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.settings.Settings

/** Decides which side of a join is filtered by the keys of the other side. [[JoinPlanner]] uses it. */
object JoinSides {

  /** Whether the left side is filtered (else the right one), or why neither is.
    *
    * @param isHinted
    *   whether a hint asks for filters on the left (else the right) side. A hint overrules estimates
    */
  def filterLeft(j: BaseJoinExec, conf: SQLConf, isHinted: Boolean => Boolean): Either[Reason, Boolean] =
    j match {
      case b: BroadcastHashJoinExec =>
        val streamsLeft = b.buildSide == BuildRight
        if (!permits(j, streamsLeft)) Left(needsAll(j, streamsLeft))
        else if (isHinted(streamsLeft)) Right(streamsLeft)
        else
          BuildEstimates
            .estimate(if (streamsLeft) j.right else j.left)
            .flatMap(notSelective(_, conf))
            .toLeft(streamsLeft)
      case _: SortMergeJoinExec | _: ShuffledHashJoinExec =>
        val candidates = Seq(true, false).filter(permits(j, _))
        if (candidates.isEmpty) Left(needsAll(j, streamsLeft = true))
        else {
          val asked = candidates.filter(isHinted)
          val refused = (if (asked.isEmpty) candidates else asked).map(side => side -> whyNotSelective(j, side, conf))
          refused.collectFirst { case (side, None) => side }.orElse(asked.headOption).toRight(refused.head._2.get)
        }
      case other => Left(Reasons.UnknownJoin(other.nodeName.trim))
    }

  /** Whether a side may be filtered without changing the answer. */
  def permits(j: BaseJoinExec, filterLeft: Boolean): Boolean =
    JoinSemantics.of(j)(filterLeft).mayLose && (j match {
      // Spark runs the broadcast side first.
      case b: BroadcastHashJoinExec => filterLeft == (b.buildSide == BuildRight)
      case _ => true
    })

  private def needsAll(j: BaseJoinExec, streamsLeft: Boolean): Reason =
    if (JoinSemantics.isNullAware(j)) Reasons.NotIn
    else {
      val sides = if (j.joinType == FullOuter) "both sides" else s"its ${if (streamsLeft) "left" else "right"} side"
      Reasons.NeedsAllRows(JoinSemantics.withArticle(j.joinType), sides)
    }

  /** Why filtering one side of a shuffled join is not expected to pay, if so. */
  private def whyNotSelective(j: BaseJoinExec, filterLeft: Boolean, conf: SQLConf): Option[Reason] = {
    val (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
    (logical(probe).map(Estimates.estimate), BuildEstimates.estimate(build)) match {
      case (Some(p), Some(b)) =>
        if (b.rows > p.rows) Some(Reasons.NotSmaller) else notSelective(b, conf)
      case _ => None
    }
  }

  /** Rejects a build side without any condition: it has most keys of the probe side, unless it is a short list. */
  private def notSelective(build: Estimate, conf: SQLConf): Option[Reason] = {
    val limit = math.min(Settings.get(conf, Settings.JoinMaxBuildRows), Estimates.ManyRows)
    Option.when(build.selectivity >= 1 && build.rows > limit)(Reasons.NotSelective(limit))
  }

  /** The logical plan of a side, if Spark has linked one. */
  def logical(plan: SparkPlan): Option[LogicalPlan] = plan.find(_.logicalLink.isDefined).flatMap(_.logicalLink)
}

package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.dynamicfilters.operators.{FilteredScan, PlanNodes}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.state.JoinRef

/** Finds the join filters that scans of a plan have already. */
private[plan] object PlannedFilters {

  /** The filter of the join's keys in a running stage of the probe side. */
  def running(probe: SparkPlan, origin: String): Option[JoinRef] =
    inStages(probe).iterator.flatMap(_.joinFilters).map(_._1).find(_.origin == origin)

  /** Filtered scans in stages. */
  private def inStages(plan: SparkPlan): Seq[FilteredScan] =
    plan.collect { case q: QueryStageExec => q }.flatMap(scans)

  private def scans(plan: SparkPlan): Seq[FilteredScan] =
    PlanNodes.withStages(plan).collect { case s: FilteredScan => s }

  /** Join filters in the scans of a plan, including its stages. */
  def filters(plan: SparkPlan): Seq[JoinRef] = scans(plan).flatMap(_.joinFilters.map(_._1)).distinctBy(_.id)

  /** Filters that scans in stages wait for, or waited for. */
  def waitedFor(plan: SparkPlan): Seq[JoinRef] =
    inStages(plan).flatMap(_.joinFilters).collect {
      case (ref, place) if place.waits != Wait.No => ref
    }

  /** Disables filters that scans wait for, if adaptive execution has removed the build side from the plan. */
  def disableOrphans(plan: SparkPlan): Unit = {
    val refs = waitedFor(plan)
    if (refs.nonEmpty) {
      val tapped = BuildSides.taps(plan).map(_.ref.id).toSet
      refs.filterNot(r => tapped.contains(r.id) || r.state.isFollower).foreach { r =>
        r.state.disable(Reasons.PlannedAway)
      }
    }
  }
}

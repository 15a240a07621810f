package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.dynamicfilters.operators.{BuildKeyTapExec, FilteredScan}
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.state.JoinRef

/** The filters of joins that the scans of a plan have already. */
private[plan] object PlannedFilters {

  /** The filter of this join's keys in a scan of the probe side that runs already. */
  def carried(probe: SparkPlan, origin: String): Option[JoinRef] =
    scans(probe, running = false).iterator.flatMap(_.joinFilters).map(_._1).find(_.origin == origin)

  /** Filtered scans in stages that run or have run. */
  private def scans(plan: SparkPlan, running: Boolean): Seq[FilteredScan] = plan match {
    case q: QueryStageExec => scans(q.plan, running = true)
    case d: FilteredScan if running => Seq(d)
    case other => other.children.flatMap(scans(_, running))
  }

  /** Filters of joins in the scans of a plan, stages that run included. */
  def filters(plan: SparkPlan): Seq[JoinRef] = plan
    .flatMap {
      case q: QueryStageExec => filters(q.plan)
      case s: FilteredScan => s.joinFilters.map(_._1)
      case _ => Nil
    }
    .distinctBy(_.id)

  /** Filters for which stages that run were held back, or are. */
  def waitedFor(plan: SparkPlan): Seq[JoinRef] =
    scans(plan, running = false).flatMap(_.joinFilters).collect {
      case (ref, place) if place.waits != Wait.No => ref
    }

  /** Gives up filters that scans wait for and whose build side adaptive execution has planned away. */
  def dropOrphans(plan: SparkPlan): Unit = {
    val refs = waitedFor(plan)
    if (refs.nonEmpty) {
      val tapped = BuildSides.taps(plan).map(_.ref.id).toSet
      refs.filterNot(r => tapped.contains(r.id) || r.state.isFollower).foreach { r =>
        r.state.disable(BuildKeyTapExec.PlannedAway)
      }
    }
  }
}

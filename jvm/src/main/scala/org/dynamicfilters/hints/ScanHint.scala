package org.dynamicfilters.hints

import java.util.Locale

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.dynamicfilters.plan.DynamicFilterScanExec

/** What a user said of dynamic filters for one table. */
sealed abstract class ScanHint(val name: String)

object ScanHint {

  /** Filters whatever the planner expects of it. It never overrides what makes a filter right, nor limits of memory. */
  case object Use extends ScanHint("DYNAMIC_FILTER")

  /** No filter. */
  case object Avoid extends ScanHint("NO_DYNAMIC_FILTER")

  private val all = Seq(Use, Avoid)

  /** Key of the relation's option that carries a hint from the logical plan to the scan.
    *
    * An option, because rewrites of the optimizer copy a relation with all its options, while they lose tree node tags
    * (seen: nested column pruning, partition pruning, self joins).
    */
  val OptionKey = "dynamicfilters.hint"

  /** By name, in upper or lower case; None for any other hint. */
  def named(name: String): Option[ScanHint] = {
    val upper = name.toUpperCase(Locale.ROOT)
    all.find(_.name == upper)
  }

  /** Of two hints for a table `NO_DYNAMIC_FILTER` wins, whichever comes first. */
  def both(a: Option[ScanHint], b: Option[ScanHint]): Option[ScanHint] =
    if (a.contains(Avoid) || b.contains(Avoid)) Some(Avoid) else a.orElse(b)

  def of(scan: FileSourceScanExec): Option[ScanHint] = scan.relation.options.get(OptionKey).flatMap(named)

  /** The hint on a file scan, filtered already or not; None for any other operator. */
  def on(plan: SparkPlan): Option[ScanHint] = plan match {
    case s: FileSourceScanExec => of(s)
    case d: DynamicFilterScanExec => on(d.child)
    case _ => None
  }
}

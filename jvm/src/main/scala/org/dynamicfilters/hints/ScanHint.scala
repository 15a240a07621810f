package org.dynamicfilters.hints

import java.util.Locale

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2ScanRelation}
import org.dynamicfilters.operators.FilteredScan

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

  private def of(scan: FileSourceScanExec): Option[ScanHint] = scan.relation.options.get(OptionKey).flatMap(named)

  /** The hint on a scan, filtered already or not; None for any other operator. */
  def on(plan: SparkPlan): Option[ScanHint] = plan match {
    case s: FileSourceScanExec => of(s)
    case b: BatchScanExec =>
      // The physical scan has no options; the logical one has, and is found by what both share.
      b.logicalLink.flatMap(_.collectFirst {
        case r: DataSourceV2ScanRelation if r.scan eq b.scan => Option(r.relation.options.get(OptionKey)).flatMap(named)
      }.flatten)
    case _: FilteredScan => on(plan.children.head)
    case _ => None
  }

  /** Why the scan gets no filter, if that is what a hint says. */
  def refusal(plan: SparkPlan): Either[String, Unit] =
    Either.cond(!on(plan).contains(Avoid), (), s"the hint ${Avoid.name} is on the table")
}

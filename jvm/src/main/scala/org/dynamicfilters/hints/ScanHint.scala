package org.dynamicfilters.hints

import java.util.Locale

import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2ScanRelation}
import org.dynamicfilters.operators.FilteredScan

/** A user's hint on one table. */
sealed abstract class ScanHint(val name: String)

object ScanHint {

  /** Plans a filter even if the planner expects no gain. Never overrides correctness or memory limits. */
  case object Use extends ScanHint("DYNAMIC_FILTER")

  /** Plans no filter. */
  case object Avoid extends ScanHint("NO_DYNAMIC_FILTER")

  private val all = Seq(Use, Avoid)

  /** Key of the relation's option that carries a hint from the logical plan to the scan.
    *
    * An option, because rewrites of the optimizer copy a relation with all its options, while they lose tree node tags
    * (seen: nested column pruning, partition pruning, self joins).
    */
  val OptionKey = "dynamicfilters.hint"

  /** Parses the name of a hint, in any case. None for any other hint. */
  def named(name: String): Option[ScanHint] = {
    val upper = name.toUpperCase(Locale.ROOT)
    all.find(_.name == upper)
  }

  /** `NO_DYNAMIC_FILTER` wins over `DYNAMIC_FILTER`. */
  def both(a: Option[ScanHint], b: Option[ScanHint]): Option[ScanHint] =
    if (a.contains(Avoid) || b.contains(Avoid)) Some(Avoid) else a.orElse(b)

  /** The hint on a scan, whether the scan is filtered yet or not. None for any other operator. */
  def on(plan: SparkPlan): Option[ScanHint] = plan match {
    case s: FileSourceScanExec => s.relation.options.get(OptionKey).flatMap(named)
    case b: BatchScanExec =>
      // The physical scan has no options; the logical one has, and is found by what both share.
      b.logicalLink.flatMap(_.collectFirst {
        case r: DataSourceV2ScanRelation if r.scan eq b.scan => Option(r.relation.options.get(OptionKey)).flatMap(named)
      }.flatten)
    case _: FilteredScan => on(plan.children.head)
    case _ => None
  }
}

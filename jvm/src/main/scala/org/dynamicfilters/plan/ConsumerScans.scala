package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.api.FilterConsumer
import org.dynamicfilters.operators.{ConsumerScanExec, Tagged}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.sources.ApiFilter

/** Puts filters into custom scans. [[ScanPlanner]] uses it. */
private[plan] object ConsumerScans {

  /** Matches such scans, filtered or not: the custom scan itself. */
  def unapply(plan: SparkPlan): Option[SparkPlan with FilterConsumer] = plan match {
    case c: FilterConsumer => Some(c)
    case c: ConsumerScanExec => unapply(c.child)
    case _ => None
  }

  /** The scan with a filter, or why it does not take it. */
  def filtered(scan: SparkPlan, added: ApiFilter): Either[Reason, SparkPlan] = {
    val ConsumerScans(custom) = scan: @unchecked
    val before = scan match {
      case c: ConsumerScanExec => c.filters
      case _ => IndexedSeq.empty[ApiFilter]
    }
    if (before.exists(f => (f.ref eq added.ref) && f.column.exprId == added.column.exprId)) Right(scan)
    else
      custom.withFilter(added) match {
        case same: SparkPlan with FilterConsumer if same.output.map(_.exprId) == custom.output.map(_.exprId) =>
          Right(Tagged(ConsumerScanExec(before :+ added, Tagged(same, custom)), scan))
        case other => Left(Reasons.OtherOperator(custom.nodeName.trim, other.nodeName.trim))
      }
  }
}

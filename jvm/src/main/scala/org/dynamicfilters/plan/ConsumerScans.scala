package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.api.FilterConsumer
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{ConsumerScanExec, Tagged}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.ApiFilter

/** Puts filters into custom scans. [[ScanPlanner]] uses it. */
private[plan] object ConsumerScans {

  /** Matches such scans, filtered or not: the custom scan itself. */
  def unapply(plan: SparkPlan): Option[SparkPlan with FilterConsumer] = plan match {
    case c: FilterConsumer => Some(c)
    case c: ConsumerScanExec => unapply(c.child)
    case _ => None
  }

  /** As [[ScanPlanner.filtered]]. */
  def filtered(scan: SparkPlan, added: NewFilters): Either[Reason, SparkPlan] = (added.columns, added.key) match {
    case (_, Some(key)) => Left(Reasons.Computed("the join key", key.text))
    case (Seq(column), _) =>
      val before = scan match {
        case c: ConsumerScanExec => c.filters
        case _ => IndexedSeq.empty[ApiFilter]
      }
      for {
        _ <- accepts(scan, column)
        domain <- KeyDomain.forType(column.dataType)
        filter = new ApiFilter(added.refs.head, column, domain, added.place)
        isThere = before.exists(f => (f.ref eq filter.ref) && f.column.exprId == column.exprId)
        done <- if (isThere) Right(scan) else withFilter(scan, before, filter)
      } yield done
    // Custom scans cannot join filters by OR.
    case _ => Left(ScanPlanner.noFileScan(scan))
  }

  private def withFilter(
      scan: SparkPlan,
      before: IndexedSeq[ApiFilter],
      added: ApiFilter
  ): Either[Reason, SparkPlan] = {
    val ConsumerScans(custom) = scan: @unchecked
    custom.withFilter(added) match {
      case same: SparkPlan with FilterConsumer if same.output.map(_.exprId) == custom.output.map(_.exprId) =>
        Right(Tagged(ConsumerScanExec(before :+ added, Tagged(same, custom)), scan))
      case other => Left(Reasons.OtherOperator(custom.nodeName.trim, other.nodeName.trim))
    }
  }

  /** Whether a filter on the column can go into the scan, or why not. */
  def accepts(scan: SparkPlan, column: Attribute): Either[Reason, Unit] =
    for {
      _ <- KeyDomain.forType(column.dataType)
      _ <- ScanHint.refusal(scan)
      _ <- unapply(scan) match {
        case Some(c) => Either.cond(c.takesFilterOn(column), (), Reasons.TakesNone(column.name))
        case None => Left(PushDown.stops(scan))
      }
    } yield ()
}

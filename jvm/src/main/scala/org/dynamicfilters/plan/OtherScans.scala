package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.api.FilterConsumer
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.ConsumerScanExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.{ApiFilter, ComputedKey, ScanPlace}
import org.dynamicfilters.state.{FilterRef, Producer}

/** Puts filters into scans other than Spark's Parquet scan: custom scans, and those of [[RowScans]]. [[ScanPlanner]] uses it. */
object OtherScans {

  /** Matches such scans, filtered or not. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case _: FilterConsumer | _: ConsumerScanExec => Some(plan)
    case RowScans(_) => Some(plan)
    case _ => None
  }

  /** As [[ScanPlanner.filtered]]. */
  def filtered(
      scan: SparkPlan,
      columns: Seq[Attribute],
      refs: Seq[FilterRef],
      place: ScanPlace,
      conf: SQLConf,
      key: Option[ComputedKey]
  ): Either[Reason, SparkPlan] = scan match {
    case RowScans(s) => RowScans.filtered(s, columns, refs, place, conf, key)
    case _ if key.isDefined => Left(Reasons.Computed("the join key", key.get.text))
    // Custom scans cannot join filters by OR.
    case _ if columns.size > 1 => Left(ScanPlanner.noFileScan(scan))
    case _ =>
      for {
        _ <- accepts(scan, columns.head, refs.head.producer, place.crossesExchange)
        domain <- KeyDomain.of(columns.head.dataType)
        filter = new ApiFilter(refs.head, columns.head, domain, place)
        done <- scan match {
          case c: ConsumerScanExec =>
            if (has(c.filters, filter)) Right(c) else consumer(c.filters :+ filter, c.child, filter)
          case other => consumer(IndexedSeq(filter), other, filter)
        }
      } yield done
  }

  /** Whether a filter on the column can go into the scan, or why not.
    *
    * @param crossed
    *   whether an exchange lies between the producer and the scan
    */
  def accepts(
      scan: SparkPlan,
      column: Attribute,
      producer: Producer.Value,
      crossed: Boolean
  ): Either[Reason, Unit] = scan match {
    case RowScans(s) => RowScans.accepts(s, column, producer, crossed)
    case _ =>
      for {
        _ <- KeyDomain.of(column.dataType)
        _ <- ScanHint.refusal(scan)
        _ <- takes(scan, column)
      } yield ()
  }

  private def takes(scan: SparkPlan, column: Attribute): Either[Reason, Unit] = scan match {
    case c: ConsumerScanExec => takes(c.child, column)
    case c: FilterConsumer => Either.cond(c.takesFilterOn(column), (), Reasons.TakesNone(column.name))
    case other => Left(PushDown.stops(other))
  }

  private def has(filters: Seq[ApiFilter], f: ApiFilter): Boolean =
    filters.exists(x => (x.ref eq f.ref) && x.column.exprId == f.column.exprId)

  private def consumer(filters: IndexedSeq[ApiFilter], scan: SparkPlan, added: ApiFilter) =
    scan.asInstanceOf[FilterConsumer].withFilter(added) match {
      case same: SparkPlan with FilterConsumer if same.output.map(_.exprId) == scan.output.map(_.exprId) =>
        Right(tagged(ConsumerScanExec(filters, tagged(same, scan)), scan))
      case other => Left(Reasons.OtherOperator(scan.nodeName.trim, other.nodeName.trim))
    }

  /** Adaptive execution asserts that nodes have a logical link. */
  private def tagged[P <: SparkPlan](to: P, from: SparkPlan): P = {
    if (to ne from) to.copyTagsFrom(from)
    to
  }
}

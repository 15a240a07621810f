package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{SinglePartition, UnknownPartitioning}
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.dynamicfilters.api.FilterConsumer
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.{ConsumerScanExec, FilteredScan, V2FilteredScanExec}
import org.dynamicfilters.scan.{ApiFilter, ScanPlace}
import org.dynamicfilters.state.FilterRef

/** Puts filters into scans that are not Spark's file scans: custom ones, and DataSource V2. */
object OtherScans {

  /** Whether it is a scan that takes filters, or has some already. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case _: FilterConsumer | _: ConsumerScanExec | _: V2FilteredScanExec => Some(plan)
    case b: BatchScanExec if b.scan.isInstanceOf[SupportsRuntimeV2Filtering] => Some(plan)
    case _ => None
  }

  /** @return
    *   the filtered scan, or why it cannot be filtered by the column
    */
  def filtered(scan: SparkPlan, column: Attribute, ref: FilterRef, place: ScanPlace): Either[String, SparkPlan] =
    for {
      _ <- accepts(scan, column)
      domain <- KeyDomain.of(column.dataType)
      filter = new ApiFilter(ref, column, domain, place)
      done <- scan match {
        case c: ConsumerScanExec =>
          if (has(c.filters, filter)) Right(c) else consumer(c.filters :+ filter, c.child, filter)
        case v: V2FilteredScanExec =>
          if (has(v.filters, filter)) Right(v) else complete(v.filters :+ filter, v.child, filter)
        case b: BatchScanExec => complete(IndexedSeq(filter), b, filter)
        case other => consumer(IndexedSeq(filter), other, filter)
      }
    } yield done

  /** Whether a filter on the column can go into the scan, or why not. */
  def accepts(scan: SparkPlan, column: Attribute): Either[String, Unit] =
    for {
      _ <- KeyDomain.of(column.dataType)
      _ <- ScanHint.refusal(scan)
      _ <- takes(scan, column)
    } yield ()

  private def takes(scan: SparkPlan, column: Attribute): Either[String, Unit] =
    scan match {
      case f: FilteredScan => takes(f.children.head, column)
      case b: BatchScanExec =>
        val attributes = b.scan match {
          case s: SupportsRuntimeV2Filtering => s.filterAttributes().map(_.fieldNames().mkString(".")).toSeq
          case _ => Nil
        }
        b.outputPartitioning match {
          case SinglePartition | _: UnknownPartitioning =>
            Either.cond(
              attributes.exists(b.conf.resolver(_, column.name)),
              (),
              s"the source takes no filter on ${column.name} at run time"
            )
          case _ => Left("the partitioning of the scan is in use")
        }
      case c: FilterConsumer =>
        Either.cond(c.takesFilterOn(column), (), s"the scan takes no filter on ${column.name}")
      case other => Left(PushDown.stops(other))
    }

  private def has(filters: Seq[ApiFilter], f: ApiFilter): Boolean =
    filters.exists(x => (x.ref eq f.ref) && x.column.exprId == f.column.exprId)

  private def consumer(filters: IndexedSeq[ApiFilter], scan: SparkPlan, added: ApiFilter) =
    scan.asInstanceOf[FilterConsumer].withFilter(added) match {
      case same: SparkPlan with FilterConsumer if same.output.map(_.exprId) == scan.output.map(_.exprId) =>
        Right(tagged(ConsumerScanExec(filters, tagged(same, scan)), scan))
      case other => Left(s"${scan.nodeName.trim}.withFilter returned another operator: ${other.nodeName.trim}")
    }

  private def complete(filters: IndexedSeq[ApiFilter], scan: SparkPlan, added: ApiFilter) =
    if (added.ref.topK.isDefined) Left("the source plans its partitions before the bound is known")
    else Right(tagged(V2FilteredScanExec(filters, scan), scan))

  /** Adaptive execution asserts that nodes have a logical link. */
  private def tagged[P <: SparkPlan](to: P, from: SparkPlan): P = {
    if (to ne from) to.copyTagsFrom(from)
    to
  }
}

package org.dynamicfilters.state

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.filter.KeyDomain

/** The filter that a plan's producer and scans share.
  *
  * The id is new for every planned producer and never enters a comparison of plans: two plans that are equal but for it are
  * equal, so that Spark reuses exchanges and subqueries as before. What subclasses compare instead says which rows the
  * producer sees. State is kept by (SQL execution, id): a plan may be executed twice.
  *
  * @param id
  *   unique in the application, shown to users as `DynamicFilter#<id>`
  */
abstract class FilterRef(val id: Long, val producer: Producer.Value) extends Serializable {

  /** Type of the values that the producer collects. */
  def domain: KeyDomain

  /** What it looks for, if it is a TopK. */
  def topK: Option[TopKSpec] = None

  /** Text that is equal for equal filters, and seldom for others. */
  def marker: String

  /** The run of the producer that a scan belongs to which starts now; see [[TopKRef.nextRun]]. */
  def currentRun: Long = 0L

  /** The filter in force as in a SQL text. */
  protected def inForce(column: String): String

  /** As plans show it: `DynamicFilter#3 [k: true]` before execution, the filter in force after it. */
  final def describe(column: String): String = s"$this [$column: ${inForce(column)}]"

  override def toString: String = s"DynamicFilter#$id"
}

/** What the driver knows of filters by their ids. */
trait FilterSource {
  def topK(filterId: Long): Option[TopKSpec]
  def join(filterId: Long): Option[JoinState]

  /** A user's filter, in an execution whose scans follow its updates. */
  def user(executionId: Long, filterId: Long): Option[UserState] = None
}

object FilterRef extends FilterSource {
  private val ids = new AtomicLong
  private[state] def nextId(): Long = ids.incrementAndGet()

  // On the driver only; as long as a plan holds the filter.
  private val planned = new ConcurrentHashMap[Long, WeakReference[FilterRef]]()
  private val gone = new ReferenceQueue[FilterRef]

  private final class Planned(ref: FilterRef) extends WeakReference[FilterRef](ref, gone) {
    val id: Long = ref.id
  }

  /** Makes a filter that was just planned known to the driver's part of the exchange. */
  private[state] def register[R <: FilterRef](ref: R): R = {
    Iterator.continually(gone.poll()).takeWhile(_ != null).foreach { case p: Planned => planned.remove(p.id) }
    planned.put(ref.id, new Planned(ref))
    ref
  }

  private def find(filterId: Long): Option[FilterRef] = Option(planned.get(filterId)).flatMap(w => Option(w.get))

  override def topK(filterId: Long): Option[TopKSpec] = find(filterId).flatMap(_.topK)
  override def join(filterId: Long): Option[JoinState] = find(filterId).collect { case j: JoinRef => j.state }
  override def user(executionId: Long, filterId: Long): Option[UserState] =
    UserState.ifRunning(executionId, filterId, find(filterId).collect { case u: UserRef => u })
}

/** A producer's own record of a plan's executions, from which plans show the filter. */
trait PlanRun {

  /** The filter in force in the newest execution, as in a SQL text. */
  def shown(column: String): String
}

/** The filter of a TopK, or of a min or max, which is a TopK of one row.
  *
  * Two of them are equal if equal operators look for the same in it. The plans are compared, not their hashes: Spark reuses an
  * exchange or a subquery for another that is equal, and what is left for one limit is too little for a larger one.
  *
  * @param producing
  *   the operator that it is for, with all that is below; null on executors
  * @param ordinal
  *   which of the operator's filters it is
  */
final class TopKRef private (
    id: Long,
    @transient private val producing: SparkPlan,
    private val ordinal: Int,
    val spec: TopKSpec,
    producer: Producer.Value
) extends FilterRef(id, producer) {
  // To make it costs much of a large plan, and only a comparison asks for it: that of an equal operator.
  @transient private lazy val of: SparkPlan = if (producing == null) null else producing.canonicalized

  override def marker: String = f"$producer-${(ordinal, spec).hashCode}%08x"

  @transient private var runs = 0L
  @transient @volatile private var lastRun: PlanRun = _

  override def domain: KeyDomain = spec.domain
  override def topK: Option[TopKSpec] = Some(spec)

  /** Starts a run of the plan, on the driver: the producer calls this before the scans below it start.
    *
    * Partitions are numbered within a run. A plan that is run again, even within one SQL execution, may put other files into
    * a partition, so rows counted in one run say nothing in another.
    */
  def nextRun(): Long = synchronized { runs += 1; runs }
  override def currentRun: Long = synchronized(runs)

  /** The producer's record of the execution that was started last, on the driver; null before, and on executors. */
  def driverRun: PlanRun = lastRun
  def started(run: PlanRun): Unit = lastRun = run
  override protected def inForce(column: String): String = if (lastRun == null) "true" else lastRun.shown(column)

  override def equals(other: Any): Boolean = other match {
    case that: TopKRef =>
      (that eq this) ||
      (that.ordinal == ordinal && that.spec == spec && that.producer == producer &&
        of != null && that.of == of)
    case _ => false
  }
  override def hashCode: Int = marker.hashCode
}

object TopKRef {

  /** @param of
    *   the operator that it is for, as planned before it has any filter
    * @param ordinal
    *   which of the operator's filters it is
    * @param producer
    *   a TopK or an aggregate
    */
  def apply(of: SparkPlan, spec: TopKSpec, ordinal: Int = 0, producer: Producer.Value = Producer.topk): TopKRef =
    FilterRef.register(new TopKRef(FilterRef.nextId(), of, ordinal, spec, producer))
}

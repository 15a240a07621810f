package org.dynamicfilters.state

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.filter.ValueFilter

/** The filter that a producer and its scans share in a plan.
  *
  * Each planned producer gets a new id, which comparisons of plans ignore, so that Spark reuses exchanges and
  * subqueries as before. Subclasses compare the rows that their producers see. State is kept by (SQL execution, id),
  * because a plan may be executed twice (contract 4).
  *
  * @param id unique in the application, shown to users as `DynamicFilter#<id>`
  */
abstract class FilterRef(val id: Long, val producer: Producer.Value) extends Serializable {

  /** The rows that a TopK needs; None for other producers. */
  def topK: Option[TopKSpec] = None

  /** The producer's run to which a scan that starts now belongs; see [[TopKRef.nextRun]]. */
  def currentRun: Long = 0L

  /** The record of the newest execution, on the driver; null before, and on executors. */
  def driverRun: PlanRun

  /** Text in plans: `DynamicFilter#3 [k: not known yet]` before execution, the filter in force after it. */
  final def describe(column: String): String =
    s"$this [$column: ${Option(driverRun).fold(FilterRef.NotKnownYet)(_.shown(column))}]"

  override def toString: String = s"DynamicFilter#$id"
}

/** What plans and reports show of a filter beside its contents. Thread-safe. */
trait ShownFilter {
  @volatile private var names = Vector.empty[String]
  @volatile private var shows = true

  /** Scan columns that the filter is used on. */
  final def columnNames: Seq[String] = names
  final def addColumn(name: String): Unit = synchronized(if (!names.contains(name)) names :+= name)

  /** Whether plans and reports may show values. */
  final def showsValues: Boolean = shows
  final def showValues(show: Boolean): Unit = shows = show
}

/** Identifies a filter within an execution, or the contents that one generation of it has.
  *
  * @param run for a TopK, its producer's run (see [[TopKRef.nextRun]]); for a join's or a user's filter, the generation
  *   of its contents (see [[JoinState.named]]); 0 in a subscription, and for the range alone of a join's filter
  */
final case class FilterName(filterId: Long, run: Long)

/** A join's or a user's filter. Equal names are equal contents, in every process. */
final case class NamedFilter(name: FilterName, filter: ValueFilter)

/** Finds filters by id on the driver, for the exchange between processes. */
trait FilterSource {
  def topK(filterId: Long): Option[TopKSpec]
  def join(filterId: Long): Option[JoinState]

  /** A user filter in an execution whose scans follow its updates. */
  def user(executionId: Long, filterId: Long): Option[UserState] = None
}

object FilterRef extends FilterSource {

  /** Text in plans for a filter that is not complete, or has no bound yet. */
  val NotKnownYet = "not known yet"

  private val ids = new AtomicLong
  private[state] def nextId(): Long = ids.incrementAndGet()

  // On the driver only, while a plan holds the filter.
  private val planned = new WeakRegistry[Long, FilterRef]

  /** Registers a planned filter, so that the driver finds it by id. */
  private[state] def register[R <: FilterRef](ref: R): R = {
    planned.put(ref.id, ref)
    ref
  }

  override def topK(filterId: Long): Option[TopKSpec] = planned.find(filterId).flatMap(_.topK)
  override def join(filterId: Long): Option[JoinState] = planned.find(filterId).collect { case j: JoinRef => j.state }
  override def user(executionId: Long, filterId: Long): Option[UserState] =
    UserState.ifRunning(executionId, filterId, planned.find(filterId).collect { case u: UserRef => u })
}

/** A filter's record of an execution, from which plans show it. */
trait PlanRun {

  /** The filter in force as SQL text. */
  def shown(column: String): String
}

/** The filter of a TopK, or of a min or max, which is a TopK of one row.
  *
  * Two are equal if equal operators have equal specs. Compares plans, not their hashes: Spark reuses an exchange or a
  * subquery for an equal one, and the rows for one limit are too few for a larger one.
  *
  * @param producing the producer's plan; null on executors
  * @param ordinal position among the producer's filters
  */
final class TopKRef private (
    id: Long,
    @transient private val producing: SparkPlan,
    private val ordinal: Int,
    val spec: TopKSpec,
    producer: Producer.Value
) extends FilterRef(id, producer) {
  // Lazy, because the canonical form of a large plan is expensive, and only comparisons with equal specs need it.
  @transient private lazy val canonical: SparkPlan = if (producing == null) null else producing.canonicalized

  @transient private var runs = 0L
  @transient @volatile private var lastRun: PlanRun = _

  override def topK: Option[TopKSpec] = Some(spec)

  /** Starts a run of the plan. The producer calls this on the driver before the scans below it start.
    *
    * Partition numbers are valid within a run: a plan that runs again, even within one SQL execution, may put other
    * files into a partition, so contributions of different runs must not be merged.
    */
  def nextRun(): Long = synchronized { runs += 1; runs }
  override def currentRun: Long = synchronized(runs)

  override def driverRun: PlanRun = lastRun
  def started(run: PlanRun): Unit = lastRun = run

  override def equals(other: Any): Boolean = other match {
    case that: TopKRef =>
      (that eq this) ||
      (that.ordinal == ordinal && that.spec == spec && that.producer == producer &&
        canonical != null && that.canonical == canonical)
    case _ => false
  }
  override def hashCode: Int = (producer, ordinal, spec).hashCode
}

object TopKRef {

  /** @param producing the TopK or aggregate, as planned without filters
    * @param ordinal position among the producer's filters
    */
  def apply(producing: SparkPlan, spec: TopKSpec, ordinal: Int = 0, producer: Producer.Value = Producer.topk): TopKRef =
    FilterRef.register(new TopKRef(FilterRef.nextId(), producing, ordinal, spec, producer))
}

/** The kinds of filter producers, by their names in reports. */
object Producer extends Enumeration {
  val topk, join, aggregate, user, subquery = Value
}

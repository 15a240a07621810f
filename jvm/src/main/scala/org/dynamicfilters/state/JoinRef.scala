package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.filter.{KeyDomain, KeyLimits, PluginFailure}
import org.dynamicfilters.reasons.Reasons

/** The filter of a join in a plan, made from one key of the build side.
  *
  * Two are equal if they are made from equal keys of equal build sides. Compares plans, not their hashes: Spark reuses
  * an exchange over a filtered scan for an equal one, so a wrong match of two filters would give wrong rows.
  *
  * @param origin the keys of both sides of the join as text, with attribute ids. At re-planning, a join finds its
  *   filter in a running probe side by it
  * @param build canonical form of the build side's exchange
  * @param key bound to the exchange's output
  * @param nullsMatch whether the join compares the key by `<=>`, so that NULL is a key like any other
  */
final class JoinRef private (
    id: Long,
    val origin: String,
    @transient private[dynamicfilters] val build: SparkPlan,
    @transient private val key: Expression,
    val nullsMatch: Boolean,
    limits: KeyLimits,
    @transient private[dynamicfilters] val facts: BuildSideFacts
) extends FilterRef(id, Producer.join) {
  import JoinRef._

  /** The key's type at the tap: between tap and join, an integer may be widened. */
  val domain: KeyDomain = KeyDomain.known(key.dataType)

  /** What the driver knows of the build side; null on executors. */
  @transient val state: JoinState = new JoinState(id, nullsMatch, limits)

  /** The exchange above the tap in the newest plan; null on executors, and without adaptive execution.
    *
    * May differ from `build` by filters that other joins have put below; see `narrowedBy`.
    */
  @transient @volatile var exchange: SparkPlan = _

  // The filtered scans below the exchange, which reduce the rows that the tap sees.
  @transient @volatile private var narrowing: Option[Narrowing] = None

  // Whether the filter was compared with another. They may have been equal, so that both joins share one.
  @transient @volatile private var compared = false

  /** Records the filters below the exchange.
    *
    * Filters of other joins reduce the collected keys, so two filters are equal only if these are equal. Comparisons
    * use the filters of the first plan. If re-planning adds others after a comparison, the filter is disabled: a scan
    * of another join may use it, whose rows the added filters do not cover.
    *
    * @param scans by leaf of the plan, the canonical form if it is a filtered scan: it matters which of two equal scans
    *   is filtered. Empty if no scan is filtered
    * @param filters `source` of the join filters of these scans
    */
  def narrowedBy(scans: Seq[Option[SparkPlan]], filters: Set[Any]): Unit =
    if (narrowing.forall(n => !filters.subsetOf(n.filters))) {
      val isFirst = narrowing.isEmpty
      narrowing = Some(Narrowing(scans, filters))
      if (!isFirst && compared) state.disable(Reasons.NarrowedLater)
    }

  /** The filters recorded by `narrowedBy`. */
  private[dynamicfilters] def narrowers: Set[Any] = narrowing.fold(Set.empty[Any])(_.filters)

  /** Identifies the collected keys: equal for filters of one join that collect the same keys. At re-planning, a join
    * may get a filter of the same origin with other keys, for example from above a HAVING.
    */
  private[dynamicfilters] def source: Any = if (isOther) id else (origin, hash, key, nullsMatch, build)

  // Whether re-planning has moved the tap, so that `build` no longer describes its keys.
  @transient @volatile private var isOther = false

  /** Records where re-planning puts the tap. If it moved (above a HAVING there are fewer keys), the filter equals no
    * other from then on, and is disabled if a scan of another join may use it already.
    *
    * @param now [[BuildSideFacts.passed]] in the new plan
    */
  def tappedAfter(now: Seq[String]): Unit = if (now != facts.passed) {
    isOther = true
    if (compared) state.disable(Reasons.MovedLater)
  }

  /** Another join of the plan uses this filter too, because their build sides are equal. Counts as a comparison. */
  def usedByOthers(): Unit = {
    compared = true
    if (isOther) state.disable(Reasons.MovedLater)
  }

  /** When adaptive execution was about to make a stage of it, as `System.nanoTime`; 0 before. */
  @transient @volatile var stageMade: Long = 0

  private[dynamicfilters] val hash: Int = (build, key, nullsMatch).hashCode

  override def driverRun: PlanRun = state

  override def equals(other: Any): Boolean = other match {
    case that: JoinRef =>
      (that eq this) ||
      (build != null && that.hash == hash && that.nullsMatch == nullsMatch && that.key == key && that.build == build &&
        that.contents == contents && isRepeatable && that.isRepeatable && isNarrowedAs(that))
    case _ => false
  }
  override def hashCode: Int = hash

  // If listing fails, the id, so that the filter equals no other.
  @transient private lazy val contents: Any =
    try facts.listed
    catch { case PluginFailure(_) => id }

  // For example, a broadcast of random rows is made once for a query, and again for a cached plan that the query reads.
  @transient private lazy val isRepeatable: Boolean =
    try facts.repeats
    catch { case PluginFailure(_) => false }

  private def isNarrowedAs(that: JoinRef): Boolean = {
    // Set before the comparison. `narrowedBy` and `tappedAfter` read it after their change, so no race goes unnoticed.
    compared = true
    that.compared = true
    !isOther && !that.isOther && that.narrowed == narrowed
  }

  private def narrowed: Seq[Option[SparkPlan]] = narrowing.fold(Seq.empty[Option[SparkPlan]])(_.scans)
}

object JoinRef {

  private final case class Narrowing(scans: Seq[Option[SparkPlan]], filters: Set[Any])

  def apply(
      origin: String,
      build: SparkPlan,
      key: Expression,
      nullsMatch: Boolean,
      limits: KeyLimits,
      facts: BuildSideFacts
  ): JoinRef =
    FilterRef.register(new JoinRef(FilterRef.nextId(), origin, build, key, nullsMatch, limits, facts))
}

/** Facts about the build side of a [[JoinRef]]. Each takes a walk through plans on demand. On the driver. */
trait BuildSideFacts {

  /** The session, and the known state of the tables below the tap. Equal plans may differ in both: a cached plan may
    * have listed a folder earlier than the query that reads the cache, in a session with another time zone.
    */
  def listed: Seq[Any]

  /** Whether a second execution of the build side has the same keys. */
  def repeats: Boolean

  /** Estimated share of probe rows that pass, from 0 to 1. */
  def expectedShare: Double

  /** Operators between the join and the tap, which drop rows after their keys were collected: "filter", "join". */
  def passed: Seq[String]
}

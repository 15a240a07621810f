package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.filter.{KeyDomain, KeyLimits, OwnFailure, TupleHash, TuplePart}

/** The filter that a join's build side makes of one of its keys, or of the tuples of all its keys.
  *
  * Two of them are equal if equal build sides make them of equal keys. The plans are compared, not their hashes: Spark reuses
  * the exchange over a filtered scan for another that is equal, so taking two different filters for one would give wrong rows.
  *
  * @param parts
  *   types of the build keys where they are collected, and by which of them the join is by `<=>`, so that NULL is a key like
  *   any other
  * @param origin
  *   the keys of both sides of the join as text, attribute ids included: by it a join that adaptive execution plans anew finds
  *   its filter in a probe side that is running already
  * @param columns
  *   of a tuple, the filters of its single keys
  * @param expectedShare
  *   of the rows of a probe side, the share that the planner expects to pass, from 0 to 1; of no use on executors
  * @param facts
  *   of no use on executors
  * @param passed
  *   what stood between the join and the tap when the filter was made, from above, and leaves out rows whose keys are
  *   collected nevertheless: "filter", "join"
  */
final class JoinRef private (
    id: Long,
    val parts: IndexedSeq[TuplePart],
    val origin: String,
    @transient private[dynamicfilters] val build: SparkPlan,
    @transient private val keys: Seq[Expression],
    limits: KeyLimits,
    @transient private val columns: Seq[JoinRef],
    val expectedShare: Double,
    @transient private[dynamicfilters] val facts: BuildSideFacts,
    @transient private[dynamicfilters] val passed: Seq[String]
) extends FilterRef(id, Producer.join) {
  import JoinRef._

  /** Whether it is collected from columns of these types. */
  def isOf(keys: Seq[Expression]): Boolean = parts.map(_.domain.dataType) == keys.map(_.dataType)

  def isTuple: Boolean = parts.size > 1
  override def domain: KeyDomain = if (isTuple) TupleHash.domain else parts.head.domain
  def nullsMatch: Seq[Boolean] = parts.map(_.nullsMatch)

  /** What the driver knows of the build side; null on executors. */
  @transient val state: JoinState =
    new JoinState(id, !isTuple && parts.head.nullsMatch, limits, columns.map(_.state))

  /** The exchange above the tap, as it was planned last; null on executors, and of stages that are planned one by one.
    *
    * Not `build`: other filters may have narrowed what is below since; see `narrowedBy`.
    */
  @transient @volatile var exchange: SparkPlan = _

  // The filtered scans below the exchange, which narrow what the tap sees.
  @transient @volatile private var narrowing: Option[Narrowing] = None

  // Whether there are other joins with an equal build side, which may have this filter, or take it for theirs.
  @transient @volatile private var compared = false

  /** Tells which filters are below the exchange.
    *
    * They may belong to joins above the tap, as where the tap is under one side of a join that makes the build side: the keys
    * of an equal exchange that is filtered otherwise are others. So what was planned first takes part in comparisons. When
    * adaptive execution plans anew and finds other filters than then, somebody who uses an equal scan may know nothing of their
    * joins.
    *
    * @param scans
    *   by leaf of the plan, the canonical form if it is a filtered scan: which of two equal scans is filtered makes a
    *   difference. None at all where no scan is filtered
    * @param filters
    *   the joins' filters that these have, told apart by their `source`
    */
  def narrowedBy(scans: Seq[Option[SparkPlan]], filters: Set[Any]): Unit =
    if (narrowing.forall(n => !filters.subsetOf(n.filters))) {
      val isFirst = narrowing.isEmpty
      narrowing = Some(Narrowing(scans, filters))
      if (!isFirst && compared) state.disable(NarrowedLater)
    }

  /** The filters that narrow what the tap sees; see `narrowedBy`. */
  private[dynamicfilters] def narrowers: Set[Any] = narrowing.fold(Set.empty[Any])(_.filters)

  /** What its keys come from: the same for filters of one join that collect the same keys. Planned anew, a join may get a filter
    * of the same origin with other keys, from above a HAVING for one.
    */
  private[dynamicfilters] def source: Any = if (isOther) id else (origin, hash, keys, nullsMatch, build)

  // Whether its keys come from elsewhere than `build` says.
  @transient @volatile private var isOther = false

  /** Its tap is where it was planned anew. A scan of another join may have this filter too, taken for its own: above an
    * aggregate's HAVING, for one, there are fewer keys than that join has. From then on it is equal to itself only.
    *
    * @param now
    *   what `passed` would be there
    */
  def tappedAfter(now: Seq[String]): Unit = if (now != passed) {
    isOther = true
    if (compared) state.disable(MovedLater)
  }

  /** Another join of the plan has this filter too, because their build sides are equal: what counts after a comparison counts for
    * them.
    */
  def usedByOthers(): Unit = {
    compared = true
    if (isOther) state.disable(MovedLater)
  }

  /** When adaptive execution was about to make a stage of it, as `System.nanoTime`; 0 before. */
  @transient @volatile var stageMade: Long = 0

  @transient private[dynamicfilters] val hash: Int = (build, keys, nullsMatch).hashCode

  override val marker: String = f"join-$hash%08x"
  override protected def inForce(column: String): String = if (state == null) "true" else state.expression(column)

  override def equals(other: Any): Boolean = other match {
    case that: JoinRef =>
      (that eq this) ||
      (build != null && that.hash == hash && that.nullsMatch == nullsMatch && that.keys == keys && that.build == build &&
        that.contents == contents && isRepeatable && that.isRepeatable && isNarrowedAs(that))
    case _ => false
  }
  override def hashCode: Int = marker.hashCode

  // If they cannot be told, those of no other filter.
  @transient private lazy val contents: Any =
    try facts.listed
    catch { case OwnFailure(_) => id }

  // A broadcast of rows that are drawn at random is made once for a query, and once more for a cached plan that it reads.
  @transient private lazy val isRepeatable: Boolean =
    try facts.repeats
    catch { case OwnFailure(_) => false }

  private def isNarrowedAs(that: JoinRef): Boolean = {
    // Before the comparison, as `narrowedBy` and `tappedAfter` look after the change: one of the two sees the other.
    compared = true
    that.compared = true
    !isOther && !that.isOther && that.narrowed == narrowed
  }

  private def narrowed: Seq[Option[SparkPlan]] = narrowing.fold(Seq.empty[Option[SparkPlan]])(_.scans)
}

object JoinRef {

  private final case class Narrowing(scans: Seq[Option[SparkPlan]], filters: Set[Any])

  val MovedLater = "planned anew: its keys would come from another place of the build side"

  val NarrowedLater = "planned anew: other filters than before narrow the build side"

  /** The filter of one key, or of the tuples of several.
    *
    * @param build
    *   canonical form of the build side's exchange
    * @param keys
    *   by part, bound to the exchange's output
    * @param columns
    *   of several, by part, the filter of that key alone; none for one
    */
  def apply(
      parts: IndexedSeq[TuplePart],
      origin: String,
      build: SparkPlan,
      keys: Seq[Expression],
      limits: KeyLimits,
      columns: Seq[JoinRef],
      expectedShare: Double = 1,
      facts: BuildSideFacts = BuildSideFacts.WithoutTables,
      passed: Seq[String] = Nil
  ): JoinRef =
    FilterRef.register(
      new JoinRef(
        FilterRef.nextId(),
        parts,
        origin,
        build,
        keys,
        limits,
        columns,
        expectedShare,
        facts,
        passed
      )
    )
}

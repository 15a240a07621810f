package org.dynamicfilters.exchange

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.filter.{KeyDomain, KeyLimits}

/** The filter that a join's build side makes of one of its keys.
  *
  * Two of them are equal if equal build sides make them of equal keys. The plans are compared, not their hashes: Spark reuses
  * the exchange over a filtered scan for another that is equal, so taking two different filters for one would give wrong rows.
  *
  * @param domain
  *   type of the build key
  * @param nullsMatch
  *   whether the join is by `<=>`, so that NULL is a key like any other
  * @param origin
  *   both keys of the join as text, attribute ids included: by it a join that adaptive execution plans anew finds its filter
  *   in a probe side that is running already
  */
final class JoinRef private (
    id: Long,
    val domain: KeyDomain,
    val nullsMatch: Boolean,
    val origin: String,
    @transient private val build: SparkPlan,
    @transient private val key: Expression,
    limits: KeyLimits
) extends FilterRef(id, "join") {

  /** What the driver knows of the build side; null on executors. */
  @transient val state: JoinFilterState = new JoinFilterState(id, nullsMatch, limits)

  @transient private val hash: Int = (build, key, nullsMatch).hashCode

  override val marker: String = f"join-$hash%08x"
  override def driverRun: AnyRef = state
  override protected def inForce(column: String): String = if (state == null) "true" else state.expression(column)

  override def equals(other: Any): Boolean = other match {
    case that: JoinRef =>
      (that eq this) ||
      (build != null && that.hash == hash && that.nullsMatch == nullsMatch && that.key == key && that.build == build)
    case _ => false
  }
  override def hashCode: Int = marker.hashCode
}

object JoinRef {

  /** @param build
    *   canonical form of the build side's exchange
    * @param key
    *   the build key, bound to the exchange's output
    */
  def apply(
      domain: KeyDomain,
      nullsMatch: Boolean,
      origin: String,
      build: SparkPlan,
      key: Expression,
      limits: KeyLimits
  ): JoinRef =
    FilterRef.register(new JoinRef(FilterRef.nextId(), domain, nullsMatch, origin, build, key, limits))
}

package org.dynamicfilters.state

import java.util.Comparator

import org.dynamicfilters.filter.{End, KeyDomain, ValueFilter}

/** What a TopK looks for in one column: the rows with the `limit` best values of the first sort key.
  *
  * @param domain
  *   order and representation of the first sort key
  * @param limit
  *   rows the query needs, its offset included; at least 1
  * @param ascending
  *   direction of the first sort key
  * @param nullsFirst
  *   whether SQL NULL sorts before every value, whatever the direction
  * @param tiesFree
  *   true if rows with equal first keys are interchangeable, that is, if there is no second sort key
  * @param distinct
  *   true if the `limit` best different keys are looked for, not rows: the groups of a GROUP BY, the ranks of a dense_rank.
  *   Then ties are not free: every row of a key is needed
  * @param keepsOrder
  *   whether rows are read in the files' order: a sum of floating point numbers depends on it
  */
final case class TopKSpec(
    domain: KeyDomain,
    limit: Int,
    ascending: Boolean,
    nullsFirst: Boolean,
    tiesFree: Boolean,
    distinct: Boolean = false,
    keepsOrder: Boolean = false
) {
  require(!(distinct && tiesFree), "every row of a key is needed, so ties are not free")

  /** Best key first; null is SQL NULL. */
  @transient lazy val order: Comparator[AnyRef] =
    (a: AnyRef, b: AnyRef) =>
      if (a == null) { if (b == null) 0 else if (nullsFirst) -1 else 1 }
      else if (b == null) { if (nullsFirst) 1 else -1 }
      else if (ascending) domain.compare(a, b)
      else domain.compare(b, a)

  /** The values that are not worse than `key`; without `inclusive` those that are better.
    *
    * @param key
    *   the bound, null for SQL NULL
    */
  def atLeastAsGoodAs(key: AnyRef, inclusive: Boolean): ValueFilter =
    if (key != null) {
      val end = Some(End(key, inclusive))
      if (ascending) ValueFilter.range(domain, None, end, nullsFirst)
      else ValueFilter.range(domain, end, None, nullsFirst)
    } else if (nullsFirst) {
      if (inclusive) ValueFilter.NullsOnly(domain) else ValueFilter.Nothing
    } else {
      if (inclusive) ValueFilter.All else ValueFilter.range(domain, None, None, nulls = false)
    }
}

/** The k-th best row that is known to exist.
  *
  * Rows are ordered by (key, partition): that makes ties decidable without asking whose row was counted. At least `limit`
  * rows that are not worse than (key, partition) exist, so a row that is worse than it cannot be needed, in any attempt
  * of any task.
  *
  * @param generation
  *   1 for the first bound of an execution, then growing; 0 means that there is no bound yet
  * @param key
  *   null for SQL NULL
  */
final case class TopKBound(generation: Long, key: AnyRef, partition: Int) {
  def isNone: Boolean = generation == 0

  /** What a task of `forPartition` may still need. Equal keys of later partitions are worse, hence dropped. */
  def filterFor(forPartition: Int, spec: TopKSpec): ValueFilter =
    if (isNone) ValueFilter.All
    else spec.atLeastAsGoodAs(key, inclusive = !spec.tiesFree || forPartition <= partition)
}

object TopKBound {
  val none: TopKBound = TopKBound(0, null, 0)
}

package org.dynamicfilters.state

import java.util.Comparator

import org.dynamicfilters.filter.{End, KeyDomain, ValueFilter}

/** The rows that a TopK needs: those with the `limit` best values of the first sort key.
  *
  * @param limit rows the query needs, including its offset; at least 1
  * @param nullsFirst whether NULL sorts before every value, in either direction
  * @param tiesFree whether rows with equal first keys are interchangeable, because there is no second sort key
  * @param distinct whether the `limit` best distinct keys are needed instead of rows: groups of a GROUP BY, ranks of a
  *   dense_rank. Then every row of a key is needed, so ties are not free
  * @param keepsOrder whether scans keep the order of rows in files, on which a sum of floating point numbers depends
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

  /** The values that are better than `key`; with `inclusive`, also the equal ones.
    *
    * @param key the bound, null for SQL NULL
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

/** The bound of a TopK: the `limit`-th best row that is known to exist.
  *
  * Rows are ordered by (key, partition), which decides ties without knowing the attempt. At least `limit` rows exist
  * that are not worse than (key, partition), so no attempt of any task needs a worse row.
  *
  * @param generation 1 for the first bound of an execution, then growing; 0 if there is no bound yet
  * @param key null for SQL NULL
  */
final case class TopKBound(generation: Long, key: AnyRef, partition: Int) {
  def isNone: Boolean = generation == 0

  /** The values that a task of `forPartition` may still need. Equal keys of later partitions are worse. */
  def filterFor(forPartition: Int, spec: TopKSpec): ValueFilter =
    if (isNone) ValueFilter.All
    else spec.atLeastAsGoodAs(key, inclusive = !spec.tiesFree || forPartition <= partition)
}

object TopKBound {
  val none: TopKBound = TopKBound(0, null, 0)
}

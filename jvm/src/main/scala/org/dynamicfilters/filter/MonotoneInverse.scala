package org.dynamicfilters.filter

import org.apache.spark.sql.types.{DateType, TimestampNTZType, TimestampType}

/** Turns filters of a key into filters of a column from which the key is computed. While the column rises, the function must never
  * fall, or never rise, clock changes apart. It works on the column's codes, see [[LongDomain]].
  *
  * @param column type of the column
  * @param key type of the computed key
  * @param slack how far two codes of the column must lie apart so that the function does not fall between them. 0 if it
  *   never falls; more for functions of local time, which goes back at the end of summer time
  * @param falls whether the function falls. The search then uses mirrored codes (`~code`), along which it rises
  * @param ofNull the computed key of NULL; Some(null) for NULL, None if it cannot be computed
  * @param value the computed key of a code of the column; None if it cannot be computed, as at the ends of a type
  */
final class MonotoneInverse(
    column: LongDomain,
    key: KeyDomain,
    slack: Long,
    falls: Boolean,
    ofNull: Option[AnyRef],
    value: Long => Option[AnyRef]
) {

  /** Functions of times may wrap around near the ends of the type, beyond year 140,000, as `date_trunc('SECOND', ts)` does. Then
    * only the half of the type that is closer to 1970 is searched, and a filter gets an inverse only if it has both ends, and both
    * are keys of that half.
    */
  private val isCut = !isInOrder(column.least, column.greatest)
  private val (start, last) = if (isCut) (column.least / 2, column.greatest / 2) else (column.least, column.greatest)

  /** False if the function wraps around. */
  def isValid: Boolean = !isCut || (isOfTimes && isInOrder(start, last))

  private def isOfTimes = column.dataType match {
    case DateType | TimestampType | TimestampNTZType => true
    case _ => false
  }

  /** Checks three points: key(least) <= key(0) <= key(greatest). */
  private def isInOrder(least: Long, greatest: Long): Boolean =
    value(mirrored(0)).exists(zero => compare(least, zero) <= 0 && compare(greatest, zero) >= 0)

  /** A filter of the column that passes each value whose key passes, and maybe others: for each of a few values or intervals of the
    * key, the range of the column; otherwise the range from the first to the last.
    */
  def inverse(filter: ValueFilter): ValueFilter = filter.convert(key) match {
    case ValueFilter.All => ValueFilter.All
    case ValueFilter.Nothing => ValueFilter.Nothing
    case n: ValueFilter.NullsOnly => ValueFilter.none(column, ofNull.forall(n.passes))
    case r: ValueFilter.Range => range(r, ofNull.forall(r.passes))
    case m: ValueFilter.Members => members(m, ofNull.forall(m.passes))
    case ValueFilter.Both(left, right) => inverse(left).and(inverse(right))
  }

  private def members(m: ValueFilter.Members, nulls: Boolean): ValueFilter = {
    val parts = m.keys match {
      case s: LongSet if s.size <= MonotoneInverse.MostKeys =>
        boxed(LongIntervals.union(s.domain, s.toArray.toSeq.map(code => (code, code))))
      case i: LongIntervals => boxed(i)
      case o: ObjectValues => o.sorted.toSeq.map(k => (k, k))
      case _ => Nil
    }
    val inverses =
      if (parts.size > MonotoneInverse.MostParts) Nil
      else parts.map { case (lo, hi) => range(ValueFilter.closed(key, lo, hi, nulls = false), nulls = false) }
    val intervals = inverses.collect { case r: ValueFilter.Range => (r.longs.lo, r.longs.hi) }
    if (inverses.isEmpty || inverses.contains(ValueFilter.All)) range(m.range, nulls)
    else ValueFilter.members(LongIntervals.union(column, intervals), ValueFilter.Range(column, None, None, nulls))
  }

  private def boxed(i: LongIntervals): Seq[(AnyRef, AnyRef)] =
    i.each.map { case (lo, hi) => (Long.box(lo), Long.box(hi)) }.toSeq

  private def range(r: ValueFilter.Range, nulls: Boolean): ValueFilter =
    if (r.hasNoValues) ValueFilter.none(column, nulls)
    else if (
      isCut && !(r.lower.exists(e => compare(start, e.key) < 0) && r.upper.exists(e => compare(last, e.key) > 0))
    )
      ValueFilter.All
    else {
      val lower = r.lower.map(e => first(compare(_, e.key) >= 0))
      // The first code above the range.
      val above = r.upper.flatMap(e => first(compare(_, e.key) > 0))
      if (lower.contains(None) || above.contains(column.least)) ValueFilter.none(column, nulls)
      else {
        val from = lower.flatten.filter(_ >= column.least + slack).map(c => end(c - slack))
        val to = above.filter(_ <= column.greatest - slack).map(c => end(c - 1 + slack))
        ValueFilter.range(column, if (falls) to else from, if (falls) from else to, nulls)
      }
    }

  private def mirrored(code: Long): Long = if (falls) ~code else code
  private def end(code: Long) = End(Long.box(mirrored(code)), inclusive = true)

  /** Compares the key of a code with another key. A key that cannot be computed is below all keys for a negative code, and above
    * all keys otherwise.
    */
  private def compare(code: Long, other: AnyRef): Int =
    value(mirrored(code)).fold(if (code < 0) -1 else 1)(this.key.compare(_, other))

  /** The least code with a property that all greater codes have too, apart from the slack; None if no code has it. */
  private def first(has: Long => Boolean): Option[Long] = {
    var (lo, hi) = (start, last)
    if (has(lo)) Some(lo)
    else if (!has(hi)) None
    else {
      // `lo` lacks the property, `hi` has it. `hi - lo` may overflow, so the shift is unsigned.
      while (hi - lo != 1) {
        val middle = lo + ((hi - lo) >>> 1)
        if (has(middle)) hi = middle else lo = middle
      }
      Some(hi)
    }
  }
}

object MonotoneInverse {

  /** More keys are not looked at one by one. */
  private val MostKeys = 10000L

  /** A filter of more values or intervals gets the inverse of its range. Each takes some 130 evaluations, and each task computes
    * them again: a hundred take about 2 ms.
    */
  private val MostParts = 100
}

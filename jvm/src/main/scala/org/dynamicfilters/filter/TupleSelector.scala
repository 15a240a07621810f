package org.dynamicfilters.filter

import org.apache.spark.sql.vectorized.ColumnVector

/** Narrows selections to the rows whose tuple of keys passes a filter of [[TupleHash]]es.
  *
  * @param parts
  *   the tuple's keys with the scan's types, in the order of the build side
  * @param fixed
  *   by part, the key of a partition column, which is the same in all rows (null = SQL NULL); None for a column of the
  *   vectors
  */
final class TupleSelector(parts: IndexedSeq[TuplePart], fixed: IndexedSeq[Option[AnyRef]]) {

  /** Keeps all rows if a vector's type differs from its part's: a filter that cannot be evaluated passes everything.
    *
    * @param vector
    *   the column of a part that is not fixed
    */
  def select(filter: ValueFilter, vector: Int => ColumnVector, s: Selection): Unit = filter match {
    case ValueFilter.All => ()
    case m: ValueFilter.Members =>
      val vectors = parts.indices.map(i => if (fixed(i).isDefined) null else vector(i))
      if (parts.indices.forall(i => vectors(i) == null || vectors(i).dataType == parts(i).domain.dataType)) {
        TupleLoops.start(s)
        parts.indices.foreach { i =>
          if (vectors(i) == null) TupleLoops.fixed(parts(i), fixed(i).get, s)
          else TupleLoops.add(parts(i), vectors(i), s)
        }
        TupleLoops.members(m, s)
      }
    case ValueFilter.Nothing => s.count = 0
    case _ => () // Filters of tuples have no other form.
  }
}

/** The loops of [[TupleSelector]], written like those of [[SelectLoops]]. Between loops, `codes(i)` of the selection is
  * the hash of the keys of `rows(i)` so far. A row with NULL in a key compared by `=` is dropped at once.
  */
private[filter] object TupleLoops {
  import LongDomain._
  import TupleHash.{mix, nullCode}

  def start(s: Selection): Unit = java.util.Arrays.fill(s.codes, 0, s.count, TupleHash.empty)

  def fixed(p: TuplePart, key: AnyRef, s: Selection): Unit =
    if (key == null && !p.nullsMatch) s.count = 0
    else {
      val code = TupleHash.code(p.domain, key)
      var i = 0
      while (i < s.count) {
        s.codes(i) = mix(s.codes(i), code)
        i += 1
      }
    }

  /** `v` has the data type of the part's domain. */
  def add(p: TuplePart, v: ColumnVector, s: Selection): Unit = p.domain match {
    case d: ObjectDomain => objects(d, v, s, p.nullsMatch)
    case d: LongDomain =>
      d.kind match {
        case IntKind => ints(v, s, p.nullsMatch)
        case LongKind => longs(v, s, p.nullsMatch)
        case IntDecimalKind if holdsUnscaled(v) => ints(v, s, p.nullsMatch)
        case LongDecimalKind if holdsUnscaled(v) => longs(v, s, p.nullsMatch)
        case _ => others(d, v, s, p.nullsMatch)
      }
  }

  /** Keeps the rows whose hash is a member. Applies the range first, as [[SelectLoops.lookUp]] requires. */
  def members(f: ValueFilter.Members, s: Selection): Unit = {
    val rows = s.rows
    val codes = s.codes
    val lo = f.range.longs.lo
    val hi = f.range.longs.hi
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val code = codes(i)
      rows(kept) = rows(i)
      codes(kept) = code
      if (code >= lo && code <= hi) kept += 1
      i += 1
    }
    s.count = kept
    SelectLoops.lookUp(f.keys, null, s, nulls = false)
  }

  private def ints(v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) {
        codes(kept) = mix(codes(i), nullCode)
        if (nulls) kept += 1
      } else {
        codes(kept) = mix(codes(i), v.getInt(r).toLong)
        kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def longs(v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) {
        codes(kept) = mix(codes(i), nullCode)
        if (nulls) kept += 1
      } else {
        codes(kept) = mix(codes(i), v.getLong(r))
        kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Rare types in keys of several columns: booleans, bytes, shorts, floating types, and decimals of other sources. */
  private def others(d: LongDomain, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) {
        codes(kept) = mix(codes(i), nullCode)
        if (nulls) kept += 1
      } else {
        codes(kept) = mix(codes(i), d.longFromVector(v, r))
        kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def objects(d: ObjectDomain, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) {
        codes(kept) = mix(codes(i), nullCode)
        if (nulls) kept += 1
      } else {
        codes(kept) = mix(codes(i), KeyBytes.hash(KeyBytes.view(d, d.fromVector(v, r))))
        kept += 1
      }
      i += 1
    }
    s.count = kept
  }
}

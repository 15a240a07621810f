package org.dynamicfilters.filter

import org.apache.spark.sql.vectorized.ColumnVector

/**
 * The loops that narrow a [[Selection]] to the members of a set; written as those of [[SelectLoops]], for the same reasons.
 *
 * Two loops after one another, so that there is one per way to store a value and one per way to look it up, not one for
 * each pair: the first leaves the rows within the range and writes their codes down, the second looks these up.
 */
private[filter] object MemberLoops {
  import LongDomain._

  /** `v` has the data type of the filter's domain. */
  def members(f: ValueFilter.Members, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(f, d, v, s)
    case d: LongDomain =>
      gather(f.range, d, v, s)
      // The rows that are null have no code. They are there only if they pass.
      lookUp(f.keys, v, s, f.nulls && v.hasNull)
  }

  /**
   * Leaves the rows whose codes are in a set.
   *
   * @param s
   *   with the codes of its rows, which lie between the least and the greatest member of an exact set
   * @param v
   *   says which rows are null, if `nulls`; else not looked at
   * @param nulls
   *   whether there may be rows that are null, which stay
   */
  def lookUp(keys: KeySet, v: ColumnVector, s: Selection, nulls: Boolean): Unit = keys match {
    case set: LongSet =>
      set.lookup match {
        case b: DenseBits => if (nulls) denseOrNull(b, v, s) else dense(b, s)
        case t: LongTable => table(t, v, s, nulls)
        case r: RoaringLookup => roaring(r.bits, v, s, nulls)
      }
    case b: Bloom => bloom(b, v, s, nulls)
    case _: ObjectValues => ()
  }

  private def gather(f: ValueFilter.Range, d: LongDomain, v: ColumnVector, s: Selection): Unit = {
    val lo = f.longs.lo
    val hi = f.longs.hi
    d.kind match {
      case IntKind => ints(v, s, lo, hi, f.nulls)
      case LongKind => longs(v, s, lo, hi, f.nulls)
      case IntDecimalKind if holdsUnscaled(v) => ints(v, s, lo, hi, f.nulls)
      case LongDecimalKind if holdsUnscaled(v) => longs(v, s, lo, hi, f.nulls)
      case FloatKind => floats(v, s, lo, hi, f.nulls)
      case DoubleKind => doubles(v, s, lo, hi, f.nulls)
      case _ => others(d, v, s, lo, hi, f.nulls)
    }
  }

  private def ints(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getInt(r).toLong
        codes(kept) = x
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def longs(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getLong(r)
        codes(kept) = x
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def floats(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = SortableBits.ofFloat(v.getFloat(r)).toLong
        codes(kept) = x
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def doubles(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = SortableBits.ofDouble(v.getDouble(r))
        codes(kept) = x
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Rare as keys: booleans, bytes, shorts, and decimals of other sources. */
  private def others(d: LongDomain, v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = d.longFromVector(v, r)
        codes(kept) = x
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Every code has a bit: the ends of the range are members. */
  private def dense(b: DenseBits, s: Selection): Unit = {
    val rows = s.rows
    val codes = s.codes
    val words = b.words
    val base = b.base
    val n = s.count
    var i, kept = 0
    while (i < n) {
      rows(kept) = rows(i)
      val bit = codes(i) - base
      kept += ((words((bit >>> 6).toInt) >>> bit) & 1L).toInt
      i += 1
    }
    s.count = kept
  }

  private def denseOrNull(b: DenseBits, v: ColumnVector, s: Selection): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (v.isNullAt(r) || b.has(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def table(t: LongTable, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || t.has(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def roaring(bits: LongRoaring, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || bits.contains(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def bloom(b: Bloom, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val bits = b.bits
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || bits.mightContainLong(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def objects(f: ValueFilter.Members, d: ObjectDomain, v: ColumnVector, s: Selection): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (f.nulls) kept += 1 }
      else if (f.passesObject(d.fromVector(v, r))) kept += 1
      i += 1
    }
    s.count = kept
  }
}

package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.vectorized.ColumnVector

/** The loops that narrow a [[Selection]] to the rows of a vector that pass a filter.
  *
  * There is one loop for each common storage of a value, instead of one loop with a match inside: each call of a
  * vector's getter then has a type profile of its own and is inlined. A row is always written to the next free place,
  * which is kept or not; the JIT compiles that without a branch that could be mispredicted.
  *
  * Numbers take two loops, one by storage and one by lookup, instead of a loop for each pair. The first keeps the rows
  * within the range and stores their codes; the second looks these up.
  */
private[filter] object SelectLoops {
  import LongDomain._

  def nullsOnly(v: ColumnVector, s: Selection): Unit =
    if (v.hasNull) each(_ => false, v, s, nulls = true) else s.count = 0

  /** `v` has the data type of the filter's domain, as in [[members]]. */
  def range(f: ValueFilter.Range, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(d, f.passesObject, v, s, f.nulls)
    case d: LongDomain =>
      val (lo, hi) = (f.longs.lo, f.longs.hi)
      d.kind match {
        case IntKind => ints(v, s, lo, hi, f.nulls)
        case LongKind => longs(v, s, lo, hi, f.nulls)
        case IntDecimalKind if holdsUnscaled(v) => ints(v, s, lo, hi, f.nulls)
        case LongDecimalKind if holdsUnscaled(v) => longs(v, s, lo, hi, f.nulls)
        case DoubleKind => doubles(v, s, lo, hi, f.nulls)
        case _ => others(d, v, s, lo, hi, f.nulls)
      }
  }

  def members(f: ValueFilter.Members, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(d, f.passesObject, v, s, f.nulls)
    case _: LongDomain =>
      range(f.range, v, s)
      // Null rows have no code. They are still selected only if nulls pass.
      lookUp(f.keys, v, s, f.nulls && v.hasNull)
  }

  /** Keeps the rows whose codes are in a set.
    *
    * @param s
    *   selection with the codes of its rows, which lie between the least and the greatest member of an exact set
    * @param v
    *   used only if `nulls`, to find the null rows
    * @param nulls
    *   whether there may be null rows, which are kept
    */
  def lookUp(keys: KeySet, v: ColumnVector, s: Selection, nulls: Boolean): Unit = keys match {
    case set: LongSet =>
      set.lookup match {
        case b: LongBits => bits(b, v, s, nulls)
        case t: LongTable => table(t, v, s, nulls)
        case other => each(other.containsLong, v, s, nulls)
      }
    case b: Bloom => each(b.bits.mightContainLong, v, s, nulls)
    case _: ObjectValues => ()
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
        val code = v.getInt(r).toLong
        codes(kept) = code
        if (code >= lo && code <= hi) kept += 1
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
        val code = v.getLong(r)
        codes(kept) = code
        if (code >= lo && code <= hi) kept += 1
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
        val code = SortableBits.ofDouble(v.getDouble(r))
        codes(kept) = code
        if (code >= lo && code <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Rare types of keys: booleans, bytes, shorts, floats, and decimals of other sources. */
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
        val code = d.longFromVector(v, r)
        codes(kept) = code
        if (code >= lo && code <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Every code is covered by the bits, because the ends of the range are members. */
  private def bits(b: LongBits, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || b.has(codes(i))) kept += 1
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
      if ((nulls && v.isNullAt(r)) || t.containsLong(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  /** Calls a virtual method per row, whose own work costs more. */
  private def each(passes: LongPredicate, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val rows = s.rows
    val codes = s.codes
    val n = s.count
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || passes.test(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  /** Keeps the rows whose objects pass: for any form of an [[ObjectDomain]]. */
  def objects(
      d: ObjectDomain,
      passes: AnyRef => Boolean,
      v: ColumnVector,
      s: Selection,
      nulls: Boolean
  ): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (if (checkNulls && v.isNullAt(r)) nulls else passes(d.fromVector(v, r))) kept += 1
      i += 1
    }
    s.count = kept
  }
}

package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.vectorized.ColumnVector

/** The loops that narrow a [[Selection]] to the rows of a vector that pass a filter.
  *
  * A row is always written to the next free place, which is kept or not; the JIT compiles that without a branch that
  * could be mispredicted. Numbers take two loops: the first keeps the rows within the range and stores their codes, the
  * second looks these up. The type of the column and the class of the test are the same for all rows of a loop.
  */
private[filter] object SelectLoops {

  def nullsOnly(v: ColumnVector, s: Selection): Unit = if (v.hasNull) lookUp(none, v, s, nulls = true) else s.count = 0

  private val none: LongPredicate = _ => false

  /** `v` has the data type of the filter's domain, as in [[members]]. */
  def range(f: ValueFilter.Range, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(d, f.passesObject, v, s, f.nulls)
    case d: LongDomain => numbers(d, f.longs, v, s, f.nulls)
  }

  def members(f: ValueFilter.Members, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(d, f.passesObject, v, s, f.nulls)
    case d: LongDomain =>
      numbers(d, f.range.longs, v, s, f.nulls)
      // Null rows have no code. They are still selected only if nulls pass.
      lookUp(f.keys.longTest, v, s, f.nulls && v.hasNull)
  }

  /** Keeps the rows whose codes lie in an interval, and stores their codes. */
  private def numbers(d: LongDomain, in: LongInterval, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val (rows, codes, n) = (s.rows, s.codes, s.count)
    val (lo, hi) = (in.lo, in.hi)
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

  /** Keeps the rows whose codes pass a test, and if `nulls` the null rows. `usual` and `each` are the same loop, on
    * purpose: the JIT compiler inlines a call that has met two classes, and no more.
    */
  private def lookUp(keys: LongPredicate, v: ColumnVector, s: Selection, nulls: Boolean): Unit = keys match {
    case _: LongBits | _: LongTable => usual(keys, v, s, nulls)
    case other => each(other, v, s, nulls)
  }

  private def usual(t: LongPredicate, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val (rows, codes, n) = (s.rows, s.codes, s.count)
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || t.test(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def each(t: LongPredicate, v: ColumnVector, s: Selection, nulls: Boolean): Unit = {
    val (rows, codes, n) = (s.rows, s.codes, s.count)
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if ((nulls && v.isNullAt(r)) || t.test(codes(i))) kept += 1
      i += 1
    }
    s.count = kept
  }

  /** Keeps the rows whose objects pass: for any form of an [[ObjectDomain]]. */
  private def objects(
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

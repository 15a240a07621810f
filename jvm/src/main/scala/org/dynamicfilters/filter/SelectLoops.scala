package org.dynamicfilters.filter

import org.apache.spark.sql.vectorized.ColumnVector

/**
 * The loops that narrow a [[Selection]], one for each way a vector stores its values.
 *
 * One loop a type, not one loop with a match inside: then each call of a vector's getter has its own type profile and is
 * inlined, and values are compared in their own width. A row is always written to the next free place and that place is
 * kept or not, which the JIT compiles without a branch that the processor could mispredict.
 */
private[filter] object SelectLoops {
  import LongDomain._

  def nullsOnly(v: ColumnVector, s: Selection): Unit =
    if (!v.hasNull) s.count = 0
    else {
      val rows = s.rows
      val n = s.count
      var i, kept = 0
      while (i < n) {
        val r = rows(i)
        rows(kept) = r
        if (v.isNullAt(r)) kept += 1
        i += 1
      }
      s.count = kept
    }

  /** `v` has the data type of the filter's domain. */
  def range(f: ValueFilter.Range, v: ColumnVector, s: Selection): Unit = f.domain match {
    case d: ObjectDomain => objects(f, d, v, s)
    case d: LongDomain =>
      val lo = f.longs.lo
      val hi = f.longs.hi
      // Narrowing to Int loses nothing: both ends lie within the domain.
      d.kind match {
        case BooleanKind => booleans(v, s, lo <= 0 && hi >= 0, lo <= 1 && hi >= 1, f.nulls)
        case ByteKind => bytes(v, s, lo.toInt, hi.toInt, f.nulls)
        case ShortKind => shorts(v, s, lo.toInt, hi.toInt, f.nulls)
        case IntKind => ints(v, s, lo.toInt, hi.toInt, f.nulls)
        case LongKind => longs(v, s, lo, hi, f.nulls)
        case FloatKind => floats(v, s, lo.toInt, hi.toInt, f.nulls)
        case DoubleKind => doubles(v, s, lo, hi, f.nulls)
        case IntDecimalKind if holdsUnscaled(v) => ints(v, s, lo.toInt, hi.toInt, f.nulls)
        case LongDecimalKind if holdsUnscaled(v) => longs(v, s, lo, hi, f.nulls)
        case IntDecimalKind | LongDecimalKind => anyLongs(d, v, s, lo, hi, f.nulls)
      }
  }

  private def booleans(v: ColumnVector, s: Selection, keepFalse: Boolean, keepTrue: Boolean, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else if (if (v.getBoolean(r)) keepTrue else keepFalse) kept += 1
      i += 1
    }
    s.count = kept
  }

  private def bytes(v: ColumnVector, s: Selection, lo: Int, hi: Int, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getByte(r)
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def shorts(v: ColumnVector, s: Selection, lo: Int, hi: Int, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getShort(r)
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def ints(v: ColumnVector, s: Selection, lo: Int, hi: Int, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getInt(r)
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def longs(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = v.getLong(r)
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def floats(v: ColumnVector, s: Selection, lo: Int, hi: Int, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = SortableBits.ofFloat(v.getFloat(r))
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def doubles(v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = SortableBits.ofDouble(v.getDouble(r))
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  /** Decimals in vectors that do not hold the unscaled value (ORC, Arrow): by way of a Decimal object. */
  private def anyLongs(d: LongDomain, v: ColumnVector, s: Selection, lo: Long, hi: Long, nulls: Boolean): Unit = {
    val rows = s.rows
    val n = s.count
    val checkNulls = v.hasNull
    var i, kept = 0
    while (i < n) {
      val r = rows(i)
      rows(kept) = r
      if (checkNulls && v.isNullAt(r)) { if (nulls) kept += 1 }
      else {
        val x = d.longFromVector(v, r)
        if (x >= lo && x <= hi) kept += 1
      }
      i += 1
    }
    s.count = kept
  }

  private def objects(f: ValueFilter.Range, d: ObjectDomain, v: ColumnVector, s: Selection): Unit = {
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

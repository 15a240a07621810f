package org.dynamicfilters.scan

import scala.collection.mutable.ArrayBuilder

/** Row ranges: ascending, disjoint, non-adjacent ranges of row numbers within a row group, ends inclusive. Immutable.
  */
final class RowRanges private (private val starts: Array[Long], private val ends: Array[Long]) {
  val count: Long = {
    var c = 0L
    var i = 0
    while (i < starts.length) { c += ends(i) - starts(i) + 1; i += 1 }
    c
  }
  def isEmpty: Boolean = starts.length == 0
  def ranges: Int = starts.length
  def start(i: Int): Long = starts(i)
  def end(i: Int): Long = ends(i)

  def intersect(that: RowRanges): RowRanges = {
    val b = new RowRanges.Builder
    var i, j = 0
    while (i < ranges && j < that.ranges) {
      val from = math.max(starts(i), that.starts(j))
      val to = math.min(ends(i), that.ends(j))
      if (from <= to) b.add(from, to)
      if (ends(i) < that.ends(j)) i += 1 else j += 1
    }
    b.result()
  }

  /** The rows of [0, total) that are not in these ranges. */
  def complement(total: Long): RowRanges = {
    val b = new RowRanges.Builder
    var next = 0L
    var i = 0
    while (i < ranges) {
      if (starts(i) > next) b.add(next, starts(i) - 1)
      next = ends(i) + 1
      i += 1
    }
    if (next < total) b.add(next, total - 1)
    b.result()
  }

  def union(that: RowRanges): RowRanges = {
    val b = new RowRanges.Builder
    var i, j = 0
    while (i < ranges || j < that.ranges)
      if (j >= that.ranges || (i < ranges && starts(i) <= that.starts(j))) { b.add(starts(i), ends(i)); i += 1 }
      else { b.add(that.starts(j), that.ends(j)); j += 1 }
    b.result()
  }

  override def toString: String = starts.indices.map(i => s"[${starts(i)}, ${ends(i)}]").mkString(" ")
}

object RowRanges {
  def all(total: Long): RowRanges = { val b = new Builder; if (total > 0) b.add(0, total - 1); b.result() }

  /** From row numbers in ascending order. */
  def fromRows(rows: Array[Long]): RowRanges = { val b = new Builder; rows.foreach(b.add); b.result() }

  /** Takes ascending ranges, and joins overlapping and adjacent ones. */
  final class Builder {
    private val starts, ends = new ArrayBuilder.ofLong
    // The last range.
    private var (from, to) = (0L, -1L)

    def add(row: Long): Unit = add(row, row)

    def add(first: Long, last: Long): Unit =
      if (from <= to && first <= to + 1) to = math.max(to, last)
      else {
        end()
        from = first
        to = last
      }

    private def end(): Unit = if (from <= to) {
      starts.addOne(from)
      ends.addOne(to)
    }

    def result(): RowRanges = {
      end()
      new RowRanges(starts.result(), ends.result())
    }
  }
}

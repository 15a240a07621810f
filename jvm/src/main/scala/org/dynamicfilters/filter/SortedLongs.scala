package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

import com.google.protobuf.CodedOutputStream

/** Functions on arrays of ascending distinct longs, for [[DistinctLongs]], [[KeySet]]s and the codecs. */
private[filter] object SortedLongs {

  def ascend(xs: Array[Long]): Boolean = {
    var i = 1
    while (i < xs.length && xs(i - 1) < xs(i)) i += 1
    i >= xs.length
  }

  /** Calls `f` with each number. An array's own foreach would box it. */
  def foreach(xs: Array[Long], f: LongConsumer): Unit = {
    var i = 0
    while (i < xs.length) {
      f.accept(xs(i))
      i += 1
    }
  }

  /** The distinct numbers of an array, ascending. May sort the argument. */
  def fromUnsorted(xs: Array[Long]): Array[Long] = {
    val n = distinct(xs, xs.length)
    if (n == xs.length) xs else Arrays.copyOf(xs, n)
  }

  /** The union of sorted arrays. */
  def union(all: Seq[Array[Long]]): Array[Long] = all.filter(_.nonEmpty) match {
    case Seq() => Array.emptyLongArray
    case Seq(only) => only
    case several => fromUnsorted(Array.concat(several: _*))
  }

  /** Number of different upper halves (32 bits) of the first `n` numbers. */
  def highs(xs: Array[Long], n: Int): Int = {
    var i, found = 0
    while (i < n) {
      if (i == 0 || (xs(i) >> 32) != (xs(i - 1) >> 32)) found += 1
      i += 1
    }
    found
  }

  /** Bytes of the differences between the first `n` numbers, encoded as in `PackedLongs` of proto/filters.proto. */
  def packedBytes(xs: Array[Long], n: Int): Long = {
    var bytes = 0L
    var i = 1
    while (i < n) {
      bytes += CodedOutputStream.computeUInt64SizeNoTag(xs(i) - xs(i - 1))
      i += 1
    }
    bytes
  }

  /** Sorts the first `n` numbers of any array and drops repeated ones.
    *
    * @return
    *   how many are left
    */
  def distinct(xs: Array[Long], n: Int): Int = {
    sort(xs, n)
    var kept = math.min(n, 1)
    var i = 1
    while (i < n) {
      val x = xs(i)
      // Without a branch, because the processor could not predict it.
      xs(kept) = x
      kept += (if (x != xs(kept - 1)) 1 else 0)
      i += 1
    }
    kept
  }

  /** Below this Arrays.sort is as fast. */
  private val few = 512

  /** A radix sort by digits of eight bits. Takes 2 ns for each number and each digit in which numbers differ;
    * Arrays.sort takes 60 ns a number for large arrays.
    */
  private def sort(xs: Array[Long], n: Int): Unit = {
    var least, greatest = if (n > 0) xs(0) else 0L
    var ascends = true
    var i = 1
    while (i < n) {
      val x = xs(i)
      ascends &= xs(i - 1) <= x
      least = math.min(least, x)
      greatest = math.max(greatest, x)
      i += 1
    }
    if (!ascends && n <= few) Arrays.sort(xs, 0, n)
    else if (!ascends) {
      var (from, to) = (xs, new Array[Long](n))
      // As an unsigned number the difference is right, even if it overflows.
      val bits = 64 - java.lang.Long.numberOfLeadingZeros(greatest - least)
      for (shift <- 0 until bits by 8) {
        place(from, to, n, least, shift)
        val swap = from
        from = to
        to = swap
      }
      if (from ne xs) System.arraycopy(from, 0, xs, 0, n)
    }
  }

  /** A stable sort by one digit of the difference from the least number. */
  private def place(from: Array[Long], to: Array[Long], n: Int, least: Long, shift: Int): Unit = {
    val ends = new Array[Int](257)
    var i = 0
    while (i < n) {
      ends((((from(i) - least) >>> shift) & 255).toInt + 1) += 1
      i += 1
    }
    i = 0
    while (i < 256) {
      ends(i + 1) += ends(i)
      i += 1
    }
    i = 0
    while (i < n) {
      val x = from(i)
      val digit = (((x - least) >>> shift) & 255).toInt
      to(ends(digit)) = x
      ends(digit) += 1
      i += 1
    }
  }
}

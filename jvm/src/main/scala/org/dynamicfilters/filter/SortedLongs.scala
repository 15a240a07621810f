package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

import com.google.protobuf.CodedOutputStream

/** Arrays of longs, ascending and each number once. */
private[filter] object SortedLongs {

  def ascend(xs: Array[Long]): Boolean = {
    var i = 1
    while (i < xs.length && xs(i - 1) < xs(i)) i += 1
    i >= xs.length
  }

  /** Calls `f` with each; an array's own foreach makes an object of each number. */
  def foreach(xs: Array[Long], f: LongConsumer): Unit = {
    var i = 0
    while (i < xs.length) {
      f.accept(xs(i))
      i += 1
    }
  }

  /** The numbers of an array that may be changed. */
  def fromUnsorted(xs: Array[Long]): Array[Long] = {
    val n = distinct(xs, xs.length)
    if (n == xs.length) xs else Arrays.copyOf(xs, n)
  }

  /** The numbers of all of them. */
  def union(all: Seq[Array[Long]]): Array[Long] = all.filter(_.nonEmpty) match {
    case Seq() => Array.emptyLongArray
    case Seq(only) => only
    case several => fromUnsorted(Array.concat(several: _*))
  }

  /** How many upper halves (of 32 bits) the first `n` have. */
  def highs(xs: Array[Long], n: Int): Int = {
    var i, found = 0
    while (i < n) {
      if (i == 0 || (xs(i) >> 32) != (xs(i - 1) >> 32)) found += 1
      i += 1
    }
    found
  }

  /** How many bytes the steps between the first `n` take, as `PackedLongs` in proto/filters.proto has them. */
  def packedBytes(xs: Array[Long], n: Int): Long = {
    var bytes = 0L
    var i = 1
    while (i < n) {
      bytes += CodedOutputStream.computeUInt64SizeNoTag(xs(i) - xs(i - 1))
      i += 1
    }
    bytes
  }

  /**
   * Sorts the first `n` numbers of any array and leaves each once.
   *
   * @return
   *   how many they are
   */
  def distinct(xs: Array[Long], n: Int): Int = {
    sort(xs, n)
    var kept = math.min(n, 1)
    var i = 1
    while (i < n) {
      val x = xs(i)
      // Without a branch: the processor cannot foresee which numbers are repeated.
      xs(kept) = x
      kept += (if (x != xs(kept - 1)) 1 else 0)
      i += 1
    }
    kept
  }

  /** So few are sorted as fast by comparisons. */
  private val few = 512

  /**
   * By digits of eight bits: some 2 ns a number and digit in which they differ. The JDK's sort takes 60 ns a number as soon
   * as there are many.
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
      // Unsigned: right even where the difference overflows.
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

  /** A stable sort by one digit of the distance from the least. */
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

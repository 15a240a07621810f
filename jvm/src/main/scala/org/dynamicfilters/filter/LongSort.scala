package org.dynamicfilters.filter

import java.util.Arrays

/**
 * Sorts longs digit by digit: some 2 ns a number and byte in which they differ, where the sort of the JDK takes 60 ns a number
 * as soon as there are many.
 */
private[filter] object LongSort {

  /** So few are sorted as fast by comparisons. */
  private val few = 512
  private val digitBits = 8
  private val digits = 1 << digitBits

  /**
   * Puts the distinct ones of the first `n` numbers to the array's start, ascending. Takes an array of `n` longs for a moment.
   *
   * @param scratch
   *   used instead of that array if it is long enough
   * @return
   *   how many they are
   */
  def distinct(xs: Array[Long], n: Int, scratch: Array[Long] = Array.emptyLongArray): Int = {
    if (!ascend(xs, n)) if (n <= few) Arrays.sort(xs, 0, n) else byDigits(xs, n, scratch)
    var kept = math.min(n, 1)
    var i = 1
    while (i < n) {
      val x = xs(i)
      // Without a branch: next to no processor foresees which are repeated.
      xs(kept) = x
      kept += (if (x != xs(kept - 1)) 1 else 0)
      i += 1
    }
    kept
  }

  private def ascend(xs: Array[Long], n: Int): Boolean = {
    var i = 1
    while (i < n && xs(i - 1) <= xs(i)) i += 1
    i >= n
  }

  private def byDigits(xs: Array[Long], n: Int, scratch: Array[Long]): Unit = {
    var least, greatest = xs(0)
    var i = 1
    while (i < n) {
      least = math.min(least, xs(i))
      greatest = math.max(greatest, xs(i))
      i += 1
    }
    // Unsigned: right even where the difference overflows.
    val bits = 64 - java.lang.Long.numberOfLeadingZeros(greatest - least)
    var from = xs
    var to = if (scratch.length >= n) scratch else new Array[Long](n)
    val starts = new Array[Int](digits)
    var shift = 0
    while (shift < bits) {
      place(from, to, n, least, shift, starts)
      val swap = from
      from = to
      to = swap
      shift += digitBits
    }
    if (from ne xs) System.arraycopy(from, 0, xs, 0, n)
  }

  /** A stable sort by one digit of the distance from the least. */
  private def place(from: Array[Long], to: Array[Long], n: Int, least: Long, shift: Int, starts: Array[Int]): Unit = {
    Arrays.fill(starts, 0)
    var i = 0
    while (i < n) {
      starts(((from(i) - least) >>> shift).toInt & (digits - 1)) += 1
      i += 1
    }
    var at, d = 0
    while (d < digits) {
      val count = starts(d)
      starts(d) = at
      at += count
      d += 1
    }
    i = 0
    while (i < n) {
      val x = from(i)
      val digit = ((x - least) >>> shift).toInt & (digits - 1)
      to(starts(digit)) = x
      starts(digit) += 1
      i += 1
    }
  }
}

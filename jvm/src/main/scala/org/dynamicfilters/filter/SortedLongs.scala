package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

import com.google.protobuf.CodedOutputStream

import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/** Functions on arrays of ascending distinct longs, for [[DistinctLongs]], [[KeySet]]s and the codecs. */
private[dynamicfilters] object SortedLongs {

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

  /** The `n` numbers that `foreach` passes to its argument. */
  def collect(n: Long, foreach: LongConsumer => Unit): Array[Long] = {
    val all = new Array[Long](Math.toIntExact(n))
    var i = 0
    foreach { x =>
      all(i) = x
      i += 1
    }
    all
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
    * @return how many are left
    */
  def distinct(xs: Array[Long], n: Int): Int = {
    // RadixSort uses the second half, and returns in which half the sorted numbers are.
    val twice = Arrays.copyOf(xs, n * 2)
    val start = RadixSort.sort(new LongArray(MemoryBlock.fromLongArray(twice)), n.toLong, 0, 7, false, true)
    var kept = 0
    var i = 0
    while (i < n) {
      val x = twice(start + i)
      // Without a branch, because the processor could not predict it.
      xs(kept) = x
      kept += (if (i == 0 || x != twice(start + i - 1)) 1 else 0)
      i += 1
    }
    kept
  }
}

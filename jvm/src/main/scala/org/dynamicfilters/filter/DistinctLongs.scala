package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

/** Limits of [[DistinctLongs]].
  *
  * @param keys at most 2^29
  * @param sentBytes bytes that the encoded set may take. Collection stops as soon as the collected keys take more
  * @param memory bytes that the bit set may take, or the sorted distinct keys in the array
  */
private[filter] final case class DistinctLimits(keys: Int, sentBytes: Long, memory: Long) {

  /** Largest number of keys in the array. Each key takes 8 bytes, and 16 more while the array is sorted. The driver
    * takes 32 bytes for each key of all partitions.
    */
  private[filter] val keysOneByOne: Int =
    math.max(DistinctLongs.firstRoom, math.min(keys, math.min(memory / 16, sentBytes / 4))).toInt.min(keys)
}

/** A growing set of the codes of keys, used by [[KeyCollector]]. It starts as an array, and keys that lie close to each
  * other, as surrogate keys do, become bits. Setting a bit takes a few nanoseconds. Above the limits it drops its
  * members and takes no more.
  *
  * The array holds the numbers in the order of their arrival. When it is full it is sorted, and repeated numbers are
  * dropped. With a million numbers this takes 40 ns a number; a hash table took 100 ns.
  */
private[filter] final class DistinctLongs(domain: LongDomain, most: DistinctLimits) {
  import DistinctLongs._

  // null above the limits.
  private var list = new Array[Long](firstRoom)
  private var used = 0

  // A number that is repeated soon is not added to the list again. Its place is a hash of 11 bits; a free one holds 0.
  private val recent = new Array[Long](firstRoom)

  // null until members are dense. No number of the list lies in the range of the bits.
  private var bits: LongBits = _

  // A number that the members exceed, if they exceed a limit.
  private var exceeded = 0L

  /** Whether the members exceed a limit. May become true as late as in [[result]]. */
  def outgrown: Boolean = list == null

  /** Adds a member. */
  def add(x: Long): Unit =
    if (bits != null && bits.covers(x)) bits.add(x)
    else if (list != null) {
      val place = (x * 0x9e3779b97f4a7c15L >>> 53).toInt
      if (recent(place) != x || x == 0) {
        recent(place) = x
        list(used) = x
        used += 1
        if (used == list.length) makeRoom()
      }
    }

  /** The members; if they exceed a limit, a number that they exceed. */
  def result(): Either[Long, LongSet] = {
    if (!outgrown) {
      used = SortedLongs.distinct(list, used)
      if (isTooMuch) drop()
    }
    if (outgrown) Left(exceeded)
    else {
      // Numbers that are far apart take more bytes in a bitmap.
      val isDense = SortedLongs.highs(list, used).toLong * LongBitmap.fewest < bitCount
      val set: LongSet =
        if (isDense) LongBitmap.build(domain, foreach(_)) else LongValues(domain, SortedLongs.collect(size, foreach(_)))
      Either.cond(set.sizeInBytes <= most.sentBytes, set, math.max(0L, size - 1))
    }
  }

  private def size: Long = used.toLong + bitCount
  private def bitCount: Long = if (bits == null) 0L else bits.size.toLong

  private def drop(): Unit = {
    exceeded = math.max(0L, size - 1)
    list = null
    bits = null
  }

  /** Calls `f` with each member, ascending. The range of the bits lies between numbers of the list. */
  private def foreach(f: LongConsumer): Unit = {
    var i = 0
    while (i < used && (bits == null || list(i) < bits.base)) { f.accept(list(i)); i += 1 }
    if (bits != null) bits.foreach(f)
    while (i < used) { f.accept(list(i)); i += 1 }
  }

  private def isTooMuch: Boolean =
    used > most.keysOneByOne || size > most.keys || SortedLongs.packedBytes(list, used) > most.sentBytes

  /** Called when the list is full. */
  private def makeRoom(): Unit = {
    used = SortedLongs.distinct(list, used)
    // Rebuilding the bits for a few numbers costs more time than their sorting.
    if (used * 4L >= bitCount || isTooMuch) widen()
    if (isTooMuch) drop()
    // Grows by four if all numbers differ, because each full list costs a sort.
    else if (used > list.length / 2)
      list = Arrays.copyOf(list, math.min(Integer.highestOneBit(used) * 4L, most.keysOneByOne * 2L).toInt)
  }

  /** Moves the list into the bits if these take no more memory than the list, or little memory. */
  private def widen(): Unit = {
    val lo = if (bits == null) list(0) else math.min(list(0), bits.least)
    val hi = if (bits == null) list(used - 1) else math.max(list(used - 1), bits.greatest)
    val bytes = math.max(alwaysBytes, size * mostBytesPerKey)
    val mostBits = math.min(bytes, math.max(leastMemory, math.min(most.memory, mostMemory))) * 8
    // Negative on overflow.
    val span = hi - lo
    // Leaves room for numbers that keep ascending.
    val margin = math.min(span / 2, (mostBits - span) / 2)
    if (span >= 0 && span < mostBits && lo - margin <= lo && hi + margin >= hi) {
      val wider = new LongBits(lo - margin, (span + 2 * margin + 1).toInt)
      foreach(wider.add(_))
      bits = wider
      used = 0
    }
  }
}

private[filter] object DistinctLongs {

  /** Fits into the L1 cache. */
  val firstRoom: Int = 1 << 11

  /** Twice the bytes of a number that is being sorted. */
  private val mostBytesPerKey = 32L

  /** Fits into the L2 cache, however few members the bits have. */
  private val alwaysBytes: Long = 1L << 20

  /** Bits get at least this much memory, even if the limit is lower, and at most what a BitSet can hold. */
  private val leastMemory: Long = 1L << 15
  private val mostMemory: Long = 1L << 27
}

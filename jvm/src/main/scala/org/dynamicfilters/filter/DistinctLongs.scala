package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

/** Limits of [[DistinctLongs]].
  *
  * @param keys
  *   at most 2^29
  * @param sentBytes
  *   bytes that the encoded set may take. Collection stops as soon as the collected keys take more
  * @param memory
  *   bytes that the bit set may take, or the sorted distinct keys in the array
  */
private[filter] final case class DistinctLimits(keys: Int, sentBytes: Long, memory: Long) {

  /** Largest number of keys in the array. Each key takes 8 bytes, and 8 more while the array is sorted. The driver
    * takes 24 bytes for each key of all partitions.
    */
  private[filter] val keysOneByOne: Int =
    math.max(DistinctLongs.firstRoom, math.min(keys, math.min(memory / 16, sentBytes / 4))).toInt.min(keys)
}

/** A growing set of the codes of keys, used by [[KeyCollector]]. It starts as an array and
  * becomes a bit set if the members are dense, as surrogate keys are. Setting a bit takes a few nanoseconds.
  *
  * The array holds the numbers in the order of their arrival. When it is full it is sorted, and repeated numbers are
  * dropped. With a million numbers this takes 40 ns a number; a hash table took 100 ns.
  */
private[filter] final class DistinctLongs(domain: LongDomain, most: DistinctLimits) {
  import DistinctLongs._

  private var list = new Array[Long](firstRoom)
  private var used = 0
  // Length of the prefix of the list that is sorted and distinct. Numbers added since follow it.
  private var sorted = 0

  // A direct-mapped cache of added numbers, indexed by hash. A number that is repeated soon is not added to the list
  // again.
  private var recent = noneRecent(firstRoom)
  private var shift = placesShift(recent)

  // null until members are dense. No number of the list lies in the range of the bits.
  private var bits: LongBits = _

  /** A lower bound of the number of members; exact after [[result]]. */
  def atLeast: Long = sorted.toLong + bitCount

  private def bitCount: Long = if (bits == null) 0L else bits.size.toLong

  /** Whether single bits are kept, for tests. */
  def isDense: Boolean = bits != null

  /** Adds a member. False if the set has more members than `most` allows; the set cannot be used then. [[result]] finds
    * the cases that this method does not.
    */
  def add(x: Long): Boolean =
    if (bits != null && bits.covers(x)) bits.add(x) || bits.size <= most.keys
    else {
      val h = x * 0x9e3779b97f4a7c15L
      val place = ((h ^ (h >>> 32)) * 0xd6e8feb86659fd93L >>> shift).toInt
      if (recent(place) == x) true
      else {
        recent(place) = x
        list(used) = x
        used += 1
        used < list.length || makeRoom()
      }
    }

  /** The members; None if they exceed a limit. */
  def result(): Option[LongSet] = {
    compact()
    if (isListTooLong) widen()
    if (sorted > most.keysOneByOne || atLeast > most.keys) None
    // Numbers that are far apart take more bytes in a bitmap.
    else if (SortedLongs.highs(list, used).toLong * LongBitmap.fewest < bitCount) bitmap.orElse(values)
    else values
  }

  private def bitmap: Option[LongSet] =
    Some(LongBitmap.build(domain, foreach(_))).filter(_.sizeInBytes <= most.sentBytes)

  private def values: Option[LongSet] = {
    val all = new Array[Long](Math.toIntExact(atLeast))
    var n = 0
    foreach { x =>
      all(n) = x
      n += 1
    }
    Option.when(SortedLongs.packedBytes(all, n) <= most.sentBytes)(LongValues(domain, all))
  }

  /** Calls `f` with each member, ascending. The range of the bits lies between numbers of the list. */
  private def foreach(f: LongConsumer): Unit = {
    var i = 0
    while (i < sorted && (bits == null || list(i) < bits.base)) { f.accept(list(i)); i += 1 }
    if (bits != null) bits.foreach(f)
    while (i < sorted) { f.accept(list(i)); i += 1 }
  }

  private def compact(): Unit = {
    used = SortedLongs.distinct(list, used)
    sorted = used
  }

  private def isListTooLong: Boolean =
    sorted > most.keysOneByOne || SortedLongs.packedBytes(list, used) > most.sentBytes

  /** Called when the list is full. */
  private def makeRoom(): Boolean = {
    compact()
    // Rebuilding the bits for a few numbers costs more than it saves.
    if (used * 4L >= bitCount || isListTooLong) widen()
    if (isListTooLong || atLeast > most.keys) false
    else {
      if (used > list.length / 2) {
        // Grows by four if all numbers differ, because each full list costs a sort.
        list = Arrays.copyOf(list, math.min(Integer.highestOneBit(used) * 4L, most.keysOneByOne * 2L).toInt)
        if (recent.length < mostRecent) {
          recent = noneRecent(math.min(Integer.highestOneBit(list.length), mostRecent))
          shift = placesShift(recent)
        }
      }
      true
    }
  }

  /** Moves the list into the bits if these take no more memory than the list, or little memory. */
  private def widen(): Unit = {
    val lo = if (bits == null) list(0) else math.min(list(0), bits.least)
    val hi = if (bits == null) list(used - 1) else math.max(list(used - 1), bits.greatest)
    val bytes = math.max(alwaysBytes, (used + bitCount) * mostBytesPerKey)
    val mostBits = math.min(bytes, math.max(leastMemory, math.min(most.memory, mostMemory))) * 8
    // Negative on overflow.
    val span = hi - lo
    if (span >= 0 && span < mostBits) {
      // Leaves room for numbers that keep ascending.
      val margin = math.min(span / 2, (mostBits - span) / 2)
      val wider = new LongBits(
        if (lo < Long.MinValue + margin) Long.MinValue else lo - margin,
        if (hi > Long.MaxValue - margin) Long.MaxValue else hi + margin
      )
      foreach { x => wider.add(x); () }
      bits = wider
      used = 0
      sorted = 0
    }
  }
}

private[filter] object DistinctLongs {

  /** Fits into the L1 cache. */
  val firstRoom: Int = 1 << 11

  /** Half a MiB, which fits into the L2 cache. */
  private val mostRecent = 1 << 16

  /** Twice the bytes of a number that is being sorted. */
  private val mostBytesPerKey = 32L

  /** Fits into the L2 cache, however few members the bits have. */
  private val alwaysBytes: Long = 1L << 20

  /** Bits get at least this much memory, even if the limit is lower, and at most what an array can hold. */
  private val leastMemory: Long = 1L << 15
  private val mostMemory: Long = 1L << 33

  /** A free place holds zero. The place of the number zero is the first one, so that place starts with another number.
    */
  private def noneRecent(places: Int): Array[Long] = {
    val recent = new Array[Long](places)
    recent(0) = 1L
    recent
  }

  private def placesShift(recent: Array[Long]): Int = 64 - Integer.numberOfTrailingZeros(recent.length)
}

package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

/**
 * How many longs to keep.
 *
 * @param keys
 *   at most 2^29
 * @param sentBytes
 *   how many bytes their encoded set may take. They are given up as soon as those that are there take more
 * @param memory
 *   how many bytes the bits may take; or those one by one when they are sorted, without those that are repeated
 */
private[filter] final case class DistinctLimits(keys: Int, sentBytes: Long, memory: Long) {

  /** Each takes eight bytes, and as many more to be sorted. The driver, which has those of all partitions, takes 24. */
  private[filter] val keysOneByOne: Int =
    math.max(DistinctLongs.firstRoom, math.min(keys, math.min(memory / 16, sentBytes / 4))).toInt.min(keys)
}

/**
 * A growing set of the codes of keys: one by one at first, one bit a number once the members turn out to lie close to each
 * other, as surrogate keys do. A bit costs a few nanoseconds wherever it lies.
 *
 * The other numbers stand in an array in the order in which they came. When the array is full it is sorted and repeated
 * numbers are dropped. With a million numbers, a hash table took 100 ns for each, the array takes 40.
 */
private[filter] final class DistinctLongs(domain: LongDomain, most: DistinctLimits) {
  import DistinctLongs._

  private var list = new Array[Long](firstRoom)
  private var used = 0
  // The first so many of the list are sorted and distinct. Numbers that were added since follow.
  private var sorted = 0

  // Numbers that were added, each at the place that its hash names: those that come again soon do not go into the list.
  private var recent = noneRecent(firstRoom)
  private var shift = placesShift(recent)

  // null until members turn out to be dense. No number of the list is covered by the bits.
  private var bits: LongBits = _

  /** So many there are at least; exactly after [[result]]. */
  def atLeast: Long = sorted.toLong + bitCount

  private def bitCount: Long = if (bits == null) 0L else bits.size.toLong

  /** Whether single bits are kept, for tests. */
  def isDense: Boolean = bits != null

  /** False once it has turned out that there are more members than there may be: then the set is of no use any more. That is
    * seen at the latest in the [[result]].
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

  /** The members; None if they are more than there may be, or take too many bytes. */
  def result(): Option[LongSet] = {
    compact()
    if (isListTooLong) widen()
    if (sorted > most.keysOneByOne || atLeast > most.keys) None
    // Numbers far from all others take more in a bitmap.
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

  /** Calls `f` with each member, ascending. What has a bit lies between the others. */
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
    // Bits that are made anew for every few numbers cost more than they spare.
    if (used * 4L >= bitCount || isListTooLong) widen()
    if (isListTooLong || atLeast > most.keys) false
    else {
      if (used > list.length / 2) {
        // By four if all are different: each time that it is full costs a sort.
        list = Arrays.copyOf(list, math.min(Integer.highestOneBit(used) * 4L, most.keysOneByOne * 2L).toInt)
        if (recent.length < mostRecent) {
          recent = noneRecent(math.min(Integer.highestOneBit(list.length), mostRecent))
          shift = placesShift(recent)
        }
      }
      true
    }
  }

  /** Puts the list into bits, if these take no more memory, or little. */
  private def widen(): Unit = {
    val lo = if (bits == null) list(0) else math.min(list(0), bits.least)
    val hi = if (bits == null) list(used - 1) else math.max(list(used - 1), bits.greatest)
    val bytes = math.max(alwaysBytes, (used + bitCount) * mostBytesPerKey)
    val mostBits = math.min(bytes, math.max(leastMemory, math.min(most.memory, mostMemory))) * 8
    // The difference is negative if it overflows.
    val span = hi - lo
    if (span >= 0 && span < mostBits) {
      // Numbers that ascend soon lie beyond the greatest.
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

  /** Numbers that stay within the processor's first cache. */
  val firstRoom: Int = 1 << 11

  /** Half a MiB: within the processor's second cache. */
  private val mostRecent = 1 << 16

  /** Twice what a number takes that is sorted among others. */
  private val mostBytesPerKey = 32L

  /** So many bytes stay within the processor's second cache, however few their members. */
  private val alwaysBytes: Long = 1L << 20

  /** Of the bits, whatever the limit; and what an array can have. */
  private val leastMemory: Long = 1L << 15
  private val mostMemory: Long = 1L << 33

  /** A free place holds zero, whose own place is the first: there it must not be found before it is there. */
  private def noneRecent(places: Int): Array[Long] = {
    val recent = new Array[Long](places)
    recent(0) = 1L
    recent
  }

  private def placesShift(recent: Array[Long]): Int = 64 - Integer.numberOfTrailingZeros(recent.length)
}

package org.dynamicfilters.filter

import java.util.function.LongConsumer

/**
 * How many longs to keep.
 *
 * @param keys
 *   at most 2^29
 * @param sentBytes
 *   how many bytes [[LongRun]] of them may take. They are given up as soon as those there are, evenly spread between their
 *   ends, would take more
 * @param memory
 *   how many bytes the bits may take; or those one by one when they are sorted, without those that are repeated
 * @param expected
 *   how many are expected to be added, those that are repeated included; 0 if that is not known
 */
private[filter] final case class DistinctLimits(keys: Int, sentBytes: Long, memory: Long, expected: Long = 0L) {

  /** Each takes eight bytes, and as many more to be sorted. */
  private[filter] val keysOneByOne: Int =
    math.max(AppendedLongs.firstLook, math.min(keys, memory / 16)).toInt.min(keys)
}

/**
 * A growing set of longs: one by one at first, one bit a number once the members turn out to lie close to each other, as
 * surrogate keys do. A bit costs a few nanoseconds wherever it lies, and knows what is repeated.
 */
private[filter] final class DistinctLongs(most: DistinctLimits) {
  import DistinctLongs._

  // One of the two is there.
  private var list = new AppendedLongs(most.keysOneByOne)
  private var bits: LongBits = _
  private var mayBeDense = true

  /** So many there are at least. */
  def atLeast: Long = if (bits != null) bits.size.toLong else list.atLeast

  /** Whether single bits are kept, for tests. */
  def isDense: Boolean = bits != null

  /** False once it has turned out that there are more members than there may be: then the set is of no use any more. That is
    * seen at the latest in the [[result]].
    */
  def add(x: Long): Boolean =
    if (bits != null && bits.covers(x)) bits.add(x) || bits.size <= most.keys
    else if (bits != null) addBeyond(x)
    else list.add(x) || makeRoom()

  /** The members, each once; None if they are more than there may be, or take too many bytes. */
  def result(): Option[KeyPartial.Keys] =
    if (bits != null) compressed.filter(_.sizeInBytes <= most.sentBytes).map(KeyPartial.Bits(_)).orElse(run(bits.run()))
    else list.result().flatMap(run)

  private def run(all: LongRun): Option[KeyPartial.Keys] =
    Option.when(all.sizeInBytes <= most.sentBytes)(KeyPartial.Longs(all))

  /** An array of them would take many times as much. */
  private def compressed: Option[LongRoaring] = Option.when(bits.size > 0) {
    val made = new LongRoaringBuilder
    bits.foreach(made)
    made.result()
  }

  private def makeRoom(): Boolean =
    if (!list.isWorthALook) list.makeRoom()
    else {
      list.look()
      if (mayBeDense) bits = spanning(list.least, list.greatest, list.distinct)
      if (bits != null) {
        list.foreach { x => bits.add(x); () }
        list = null
        bits.size <= most.keys
      } else sentBytes(list.atLeast) <= most.sentBytes && !isHopeless && list.makeRoom()
    }

  /** Whether those that were added were nearly all different, and so many more are expected that they will be too many, even if
    * the planner takes them for twice as many as they are, or half of them are repeated.
    */
  private def isHopeless: Boolean = {
    val members = most.expected / 2
    list.isSample && members > list.atLeast && (members > most.keysOneByOne || sentBytes(members) > most.sentBytes)
  }

  /** What so many members take that are evenly spread between the ends of those that are there. */
  private def sentBytes(members: Long): Long = {
    val span = list.greatest - list.least
    val n = math.max(1L, members)
    // The difference is negative if it overflows.
    n * KeyCodec.sizeOfStep(if (span < 0) Long.MaxValue else span / n)
  }

  private def addBeyond(x: Long): Boolean = {
    val (first, last) = (bits.least, bits.greatest)
    val wider = spanning(math.min(x, first), math.max(x, last), bits.size, forMore = true)
    if (wider != null) {
      bits.foreach { k => wider.add(k); () }
      bits = wider
      add(x)
    } else if (bits.size >= most.keysOneByOne) false
    else {
      // Numbers far from the others may come again and again.
      mayBeDense = false
      list = new AppendedLongs(most.keysOneByOne)
      bits.foreach(k => if (!list.add(k)) { list.makeRoom(); () })
      bits = null
      add(x)
    }
  }

  /** Empty bits from lo to hi and some more on both sides; null if they are too many for so many members.
    *
    * @param forMore
    *   whether there has to be room for more: ascending numbers that are just as far from each other as bits allow made bits
    *   anew for each few of them, 17,000 times for 262,000 numbers
    */
  private def spanning(lo: Long, hi: Long, members: Int, forMore: Boolean = false): LongBits = {
    val span = hi - lo
    val bytes = math.max(alwaysBytes, members * mostBytesPerKey)
    val mostBits = math.min(bytes, math.max(leastMemory, math.min(most.memory, mostMemory))) * 8
    // The difference is negative if it overflows.
    val isSparse = members * mostBytesPerKey >= alwaysBytes && bytes * 8 == mostBits
    if (span < 0 || span >= mostBits) null
    else if (forMore && isSparse && mostBits - span < span / leastRoom) null
    else {
      val margin = math.min(span / 2, mostBits - span)
      val from = if (lo < Long.MinValue + margin) Long.MinValue else lo - margin
      val to = if (hi > Long.MaxValue - margin) Long.MaxValue else hi + margin
      new LongBits(from, to)
    }
  }
}

private object DistinctLongs {

  /** Twice what a number takes that is sorted among others. */
  val mostBytesPerKey = 32L

  /** So many bytes stay within the processor's second cache, however few their members. */
  val alwaysBytes: Long = 1L << 20

  /** The room on each side of bits that grow, as a part of what they span. */
  val leastRoom = 8

  /** Of the bits, whatever the limit; and what an array can have. */
  val leastMemory: Long = 1L << 15
  val mostMemory: Long = 1L << 33
}

/** One bit for each number from one to another, both included; these are at most 2^36 apart. */
private final class LongBits(from: Long, to: Long) {
  private val words = new Array[Long](((to - from) >>> 6).toInt + 1)
  var size = 0

  // Neither overflows in a way that matters: `from` and `to` are near to each other.
  def covers(x: Long): Boolean = x >= from && x <= to

  /** Of a number that is covered: true if it is a member already; else it becomes one. */
  def add(x: Long): Boolean = {
    val bit = x - from
    val i = (bit >>> 6).toInt
    val word = words(i)
    val wanted = word | (1L << bit)
    if (word == wanted) true
    else {
      words(i) = wanted
      size += 1
      false
    }
  }

  /** There is at least one. */
  def least: Long = {
    var i = 0
    while (words(i) == 0L) i += 1
    from + (i.toLong << 6) + java.lang.Long.numberOfTrailingZeros(words(i))
  }

  /** There is at least one. */
  def greatest: Long = {
    var i = words.length - 1
    while (words(i) == 0L) i -= 1
    from + (i.toLong << 6) + 63 - java.lang.Long.numberOfLeadingZeros(words(i))
  }

  /** Calls `f` with each member, ascending. */
  def foreach(f: LongConsumer): Unit = {
    var i, n = 0
    while (n < size) {
      var word = words(i)
      while (word != 0L) {
        f.accept(from + (i.toLong << 6) + java.lang.Long.numberOfTrailingZeros(word))
        n += 1
        word &= word - 1
      }
      i += 1
    }
  }

  /** The members. */
  def run(): LongRun = LongRun.of(foreach(_))
}

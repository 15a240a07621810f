package org.dynamicfilters.filter

import java.util.function.LongConsumer

/**
 * How many longs to keep.
 *
 * @param keys
 *   at most 2^29
 * @param sentBytes
 *   how many bytes [[KeyCodec.longs]] of them may take. A table is closed as soon as its members, evenly spread between their
 *   ends, would take more
 * @param memory
 *   how many bytes the bits may take, or a table that is full
 */
private[filter] final case class DistinctLimits(keys: Int, sentBytes: Long, memory: Long) {

  /** A table has two slots of eight bytes for each member when it is full. */
  private[filter] val keysOfTable: Int = math.max(DistinctLongs.firstLook, math.min(keys, memory / 16)).toInt.min(keys)
}

/**
 * A growing set of longs: a hash table at first, one bit a number once the members turn out to lie close to each other, as
 * surrogate keys do. A bit costs a few nanoseconds wherever it lies, a slot of a large table a cache miss and its share of
 * many copies: measured with a million distinct keys, 125 ns a key in a table.
 */
private[filter] final class DistinctLongs(most: DistinctLimits) {
  import DistinctLongs._

  // One of the two is there.
  private var table = new LongHashSet(most.keysOfTable)
  private var bits: LongBits = _
  // The size of the table at which to look whether bits would do, and the ends of what is in it.
  private var nextLook = firstLook
  private var least = Long.MaxValue
  private var greatest = Long.MinValue
  private var mayBeDense = true

  def size: Int = if (bits != null) bits.size else table.size

  /** Whether single bits are kept, for tests. */
  def isDense: Boolean = bits != null

  /** False if it is a member more than there may be; then it is not added. */
  def add(x: Long): Boolean =
    if (bits != null && bits.covers(x)) bits.add(x) || roomForLast(x)
    else if (bits != null) addBeyond(x)
    else {
      val added = table.add(x)
      if (added) {
        if (x < least) least = x
        if (x > greatest) greatest = x
        if (table.size >= nextLook) look()
      }
      added
    }

  /** The members, ascending. */
  def sorted: Array[Long] = if (bits != null) bits.sorted else table.sorted

  /** The members, if single bits are kept: an array of them would take many times as much. */
  def compressed: Option[LongRoaring] = Option.when(bits != null && bits.size > 0) {
    val made = new LongRoaringBuilder
    bits.foreach(made)
    made.result()
  }

  private def roomForLast(x: Long): Boolean = bits.size <= most.keys || { bits.remove(x); false }

  private def look(): Unit = {
    nextLook = if (nextLook > most.keysOfTable / 2) Int.MaxValue else nextLook * 2
    if (mayBeDense) bits = spanning(least, greatest, table.size)
    if (bits != null) {
      table.foreach(x => bits.add(x))
      table = null
    } else if (sentBytes > most.sentBytes) table.close()
  }

  private def sentBytes: Long = {
    val span = greatest - least
    // The difference is negative if it overflows.
    table.size.toLong * KeyCodec.sizeOfStep(if (span < 0) Long.MaxValue else span / table.size)
  }

  private def addBeyond(x: Long): Boolean = {
    val (first, last) = (bits.least, bits.greatest)
    val wider = spanning(math.min(x, first), math.max(x, last), bits.size)
    if (wider != null) {
      bits.foreach { k => wider.add(k); () }
      bits = wider
      add(x)
    } else if (bits.size >= most.keysOfTable) false
    else {
      // Numbers far from the others may come again and again.
      mayBeDense = false
      least = first
      greatest = last
      table = new LongHashSet(most.keysOfTable)
      bits.foreach { k => table.add(k); () }
      bits = null
      add(x)
    }
  }

  /** Empty bits from lo to hi and some more on both sides; null if they are too many for so many members. */
  private def spanning(lo: Long, hi: Long, members: Int): LongBits = {
    val span = hi - lo
    val bytes = math.max(alwaysBytes, members * mostBytesPerKey)
    val mostBits = math.min(bytes, math.max(leastMemory, math.min(most.memory, mostMemory))) * 8
    // The difference is negative if it overflows.
    if (span < 0 || span >= mostBits) null
    else {
      val margin = math.min(span / 2, mostBits - span)
      val from = if (lo < Long.MinValue + margin) Long.MinValue else lo - margin
      val to = if (hi > Long.MaxValue - margin) Long.MaxValue else hi + margin
      new LongBits(from, to)
    }
  }
}

private object DistinctLongs {

  /** Up to here a table stays within the processor's first cache. */
  val firstLook = 2048

  /** What a member takes in a table just after it has grown: four slots. */
  val mostBytesPerKey = 32L

  /** So many bytes stay within the processor's second cache, however few their members. */
  val alwaysBytes: Long = 1L << 20

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

  def remove(x: Long): Unit = {
    val bit = x - from
    words((bit >>> 6).toInt) &= ~(1L << bit)
    size -= 1
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

  /** The members, ascending. */
  def sorted: Array[Long] = {
    val all = new Array[Long](size)
    var n = 0
    foreach { x => all(n) = x; n += 1 }
    all
  }
}

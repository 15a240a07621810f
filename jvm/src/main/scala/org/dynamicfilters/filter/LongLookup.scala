package org.dynamicfilters.filter

import java.util.BitSet
import java.util.function.{LongConsumer, LongPredicate}

/** Makes structures for fast lookups by row in an exact set of longs, once per process. */
private[filter] object LongLookup {

  /** 64 MiB. */
  private val mostBits = 1L << 29

  /** 64 MiB as a table. */
  private val mostInTable = 1L << 22

  /** `set` is not empty. */
  def build(set: LongSet): LongPredicate = {
    // Negative on overflow.
    val span = set.greatest - set.least + 1
    if (span > 0 && span <= mostBits && span <= 64 * set.size + 65536) {
      val bits = new LongBits(set.least, span.toInt)
      set.foreach(bits.add(_))
      bits
    } else if (set.size > mostInTable) set.containsLong(_)
    else new LongTable(set)
  }
}

/** One bit for each of `span` numbers from `base` on, none of which is above the greatest long. Not thread-safe while
  * members are added.
  */
private[filter] final class LongBits(val base: Long, span: Int) extends LongPredicate {
  private val bits = new BitSet(span)
  private var members = 0

  def size: Int = members

  def covers(x: Long): Boolean = x - base >= 0 && x - base < span

  override def test(code: Long): Boolean = covers(code) && bits.get((code - base).toInt)

  /** Adds a number that is covered. */
  def add(code: Long): Unit = {
    val bit = (code - base).toInt
    if (!bits.get(bit)) { bits.set(bit); members += 1 }
  }

  /** The least member. There must be one, as for [[greatest]]. */
  def least: Long = base + bits.nextSetBit(0)

  def greatest: Long = base + bits.length - 1

  /** Calls `f` with each member, ascending. */
  def foreach(f: LongConsumer): Unit = {
    var bit = bits.nextSetBit(0)
    while (bit >= 0) {
      f.accept(base + bit)
      bit = bits.nextSetBit(bit + 1)
    }
  }
}

/** A hash table with open addressing, at most half full.
  *
  * @param set not empty
  */
private[filter] final class LongTable(set: LongSet) extends LongPredicate {

  /** Value of free slots: a number that is no member. */
  private val empty =
    if (set.least > Long.MinValue) set.least - 1
    else Iterator.iterate(Long.MinValue)(_ + 1).find(!set.containsLong(_)).get

  private val slots = {
    // A power of two, at least twice the members. Tables that fit into the L2 cache get four times as many slots, so that
    // most absent keys meet a free slot first.
    val atLeast = Integer.highestOneBit(math.max(8, set.size.toInt) * 2 - 1) * 2
    Array.fill(if (atLeast <= (1 << 14)) atLeast * 4 else atLeast)(empty)
  }
  private val mask = slots.length - 1
  private val shift = 67 - Integer.numberOfTrailingZeros(slots.length)
  set.foreach { code => slots(slotOf(code)) = code }

  override def test(code: Long): Boolean = slots(slotOf(code)) == code && code != empty

  /** The slot of a number, or the free slot in which its search ends.
    *
    * Hashes blocks of eight consecutive numbers, which fill a cache line: keys are often looked up in about ascending
    * order, and then seven of eight are in the cache. Uses the upper bits of the product, which depend on all bits of
    * the number; the lower bits of doubles are often zero.
    */
  private def slotOf(code: Long): Int = {
    var i = ((code >> 3) * 0x9e3779b97f4a7c15L >>> shift).toInt << 3 | (code.toInt & 7)
    while (slots(i) != code && slots(i) != empty) i = (i + 1) & mask
    i
  }
}

package org.dynamicfilters.filter

import java.util.function.LongConsumer

/** A structure for fast lookups by row in an exact set of longs, built once per process from a [[LongSet]]. The loops
  * of [[SelectLoops]] match on the subclasses, so that they call no virtual method per row.
  */
private[filter] trait LongLookup {

  /** Whether a number is a member. Any long may be passed. */
  def containsLong(code: Long): Boolean
}

private[filter] object LongLookup {

  /** 64 MiB. */
  private val mostBits = 1L << 29

  /** 64 MiB as a table. */
  private val mostInTable = 1L << 22

  /** `set` is not empty. */
  def build(set: LongSet): LongLookup = {
    // Negative on overflow.
    val span = set.greatest - set.least + 1
    if (span > 0 && span <= mostBits && span <= 64 * set.size + 65536) {
      val bits = new LongBits(set.least, set.greatest)
      set.foreach { code => bits.add(code); () }
      bits
    } else if (set.size > mostInTable) set
    else LongTable.build(set)
  }
}

/** One bit for each number from `base` to `last`, both inclusive, which are at most 2^36 apart. Not thread-safe while
  * members are added.
  */
private[filter] final class LongBits(val base: Long, val last: Long) extends LongLookup {
  private val words = new Array[Long](((last - base) >>> 6).toInt + 1)
  private var members = 0

  def size: Int = members

  def covers(x: Long): Boolean = x >= base && x <= last

  override def containsLong(code: Long): Boolean = covers(code) && has(code)

  /** As [[containsLong]], for a number that is covered. */
  def has(code: Long): Boolean = {
    val bit = code - base
    ((words((bit >>> 6).toInt) >>> bit) & 1L) != 0L
  }

  /** Adds a number that is covered. True if it was a member already. */
  def add(code: Long): Boolean = {
    val bit = code - base
    val i = (bit >>> 6).toInt
    val word = words(i)
    val wanted = word | (1L << bit)
    if (word != wanted) {
      words(i) = wanted
      members += 1
    }
    word == wanted
  }

  /** The least member. There must be one, as for [[greatest]]. */
  def least: Long = {
    var i = 0
    while (words(i) == 0L) i += 1
    base + (i.toLong << 6) + java.lang.Long.numberOfTrailingZeros(words(i))
  }

  def greatest: Long = {
    var i = words.length - 1
    while (words(i) == 0L) i -= 1
    base + (i.toLong << 6) + 63 - java.lang.Long.numberOfLeadingZeros(words(i))
  }

  /** Calls `f` with each member, ascending. */
  def foreach(f: LongConsumer): Unit = {
    var i, n = 0
    while (n < members) {
      var word = words(i)
      while (word != 0L) {
        f.accept(base + (i.toLong << 6) + java.lang.Long.numberOfTrailingZeros(word))
        n += 1
        word &= word - 1
      }
      i += 1
    }
  }
}

/** A hash table with open addressing, at most half full.
  *
  * @param empty
  *   value of free slots; not a member
  */
private[filter] final class LongTable private (slots: Array[Long], val empty: Long) extends LongLookup {
  private val mask = slots.length - 1
  private val shift = 67 - Integer.numberOfTrailingZeros(slots.length)

  override def containsLong(code: Long): Boolean = {
    var i = firstSlot(code)
    var x = slots(i)
    while (x != code && x != empty) {
      i = (i + 1) & mask
      x = slots(i)
    }
    x == code && code != empty
  }

  /** Hashes blocks of eight consecutive numbers, which fill a cache line: keys are often looked up in about ascending
    * order, and then seven of eight are in the cache. Uses the upper bits of the product, which depend on all bits of
    * the number; the lower bits of doubles are often zero.
    */
  private def firstSlot(code: Long): Int = ((code >> 3) * 0x9e3779b97f4a7c15L >>> shift).toInt << 3 | (code.toInt & 7)

  private def add(code: Long): Unit = {
    var i = firstSlot(code)
    while (slots(i) != empty) i = (i + 1) & mask
    slots(i) = code
  }
}

private[filter] object LongTable {

  /** Four times as many slots fit into the L2 cache. */
  private val mostSparse = 1 << 14

  def build(set: LongSet): LongTable = {
    // A power of two, at least twice the members. Small tables get four times as many slots, so that most absent keys
    // meet a free slot first.
    val atLeast = Integer.highestOneBit(math.max(8, set.size.toInt) * 2 - 1) * 2
    val slots = new Array[Long](if (atLeast <= mostSparse) atLeast * 4 else atLeast)
    val empty = noMember(set)
    java.util.Arrays.fill(slots, empty)
    val table = new LongTable(slots, empty)
    set.foreach(table.add(_))
    table
  }

  private def noMember(set: LongSet): Long =
    if (set.least > Long.MinValue) set.least - 1
    else if (set.greatest < Long.MaxValue) set.greatest + 1
    else Iterator.iterate(Long.MinValue)(_ + 1).find(!set.containsLong(_)).get
}

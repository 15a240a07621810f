package org.dynamicfilters.filter

/**
 * How rows are looked up in an exact set of longs: built once per process from a [[LongSet]], as fast as its values allow.
 * The loops of [[MemberLoops]] know the three kinds, so that none calls a virtual method per row.
 */
private[filter] sealed abstract class LongLookup {

  /** Whether this is a member. Any long may be asked for. */
  def contains(code: Long): Boolean
}

/**
 * One bit for each number from the least member to the greatest.
 *
 * @param base
 *   the number of the first bit: the least member
 * @param last
 *   the greatest member
 */
private[filter] final class DenseBits(val base: Long, val last: Long, val words: Array[Long]) extends LongLookup {
  override def contains(code: Long): Boolean = code >= base && code <= last && has(code)

  /** As [[contains]], of a number from `base` to `last` only. */
  def has(code: Long): Boolean = {
    val bit = code - base
    ((words((bit >>> 6).toInt) >>> bit) & 1L) != 0L
  }
}

/**
 * A hash table with open addressing, at most half full.
 *
 * @param empty
 *   what a free slot holds; no member
 */
private[filter] final class LongTable(val slots: Array[Long], val empty: Long) extends LongLookup {
  override def contains(code: Long): Boolean = has(code)

  def has(code: Long): Boolean = {
    val mask = slots.length - 1
    var i = LongTable.slot(code) & mask
    var x = slots(i)
    while (x != code && x != empty) {
      i = (i + 1) & mask
      x = slots(i)
    }
    x == code && code != empty
  }
}

private[filter] object LongTable {

  /** Four times as many slots still fit in a second-level cache. */
  private val mostSparse = 1 << 14

  /**
   * Where a number is looked for first; the caller takes the lower bits. Numbers are spread in blocks of eight, which fill a
   * cache line: keys are often looked up and added in about their own order, and then seven in eight are found in the cache.
   */
  def slot(code: Long): Int = {
    val h = (code >> 3) * 0x9e3779b97f4a7c15L
    ((h ^ (h >>> 32)).toInt << 3) | (code.toInt & 7)
  }

  def of(set: LongSet): LongTable = {
    // A power of two, at least twice the members; more while it stays small, for then most absent keys meet a free slot first.
    val atLeast = Integer.highestOneBit(math.max(8, set.size.toInt) * 2 - 1) * 2
    val slots = new Array[Long](if (atLeast <= mostSparse) atLeast * 4 else atLeast)
    val empty = noMember(set)
    val mask = slots.length - 1
    java.util.Arrays.fill(slots, empty)
    set.foreach { code =>
      var i = slot(code) & mask
      while (slots(i) != empty) i = (i + 1) & mask
      slots(i) = code
    }
    new LongTable(slots, empty)
  }

  private def noMember(set: LongSet): Long =
    if (set.least > Long.MinValue) set.least - 1
    else if (set.greatest < Long.MaxValue) set.greatest + 1
    else Iterator.iterate(Long.MinValue)(_ + 1).find(!set.containsLong(_)).get
}

/** A bitmap too large for the other two. */
private[filter] final class RoaringLookup(val bits: LongRoaring) extends LongLookup {
  override def contains(code: Long): Boolean = bits.contains(code)
}

private[filter] object LongLookup {

  /** 64 MiB. */
  private val mostBits = 1L << 29

  /** 64 MiB as a table. */
  private val mostInTable = 1L << 22

  /** `set` is not empty. */
  def of(set: LongSet): LongLookup = {
    // Negative if it overflows.
    val span = set.greatest - set.least + 1
    if (span > 0 && span <= mostBits && span <= 64 * set.size + 65536) dense(set, span)
    else
      set match {
        case b: LongBitmap if b.size > mostInTable => new RoaringLookup(b.bits)
        case _ => LongTable.of(set)
      }
  }

  private def dense(set: LongSet, span: Long): DenseBits = {
    val words = new Array[Long](((span + 63) >>> 6).toInt)
    val base = set.least
    set.foreach { code =>
      val bit = code - base
      words((bit >>> 6).toInt) |= 1L << bit
    }
    new DenseBits(base, set.greatest, words)
  }
}

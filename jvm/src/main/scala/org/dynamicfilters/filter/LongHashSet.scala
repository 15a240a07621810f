package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

/**
 * A growing set of longs: a hash table with open addressing, at most half full.
 *
 * @param mostKeys
 *   at most 2^29
 */
private[filter] final class LongHashSet(private var mostKeys: Int) {
  // Zero is a free slot; the number zero is kept apart.
  private var slots = new Array[Long](64)
  private var hasZero = false
  private var used = 0

  def size: Int = if (hasZero) used + 1 else used

  /** From now on it refuses what is not a member. */
  def close(): Unit = mostKeys = size

  /** False if it is a member more than there may be; then it is not added. */
  def add(x: Long): Boolean =
    if (x == 0L) addZero()
    else {
      val table = slots
      val mask = table.length - 1
      var i = LongTable.slot(x) & mask
      var found = table(i)
      while (found != x && found != 0L) {
        i = (i + 1) & mask
        found = table(i)
      }
      found == x || insert(x, i)
    }

  private def addZero(): Boolean = {
    if (!hasZero && size < mostKeys) hasZero = true
    hasZero
  }

  private def insert(x: Long, slot: Int): Boolean =
    if (size >= mostKeys) false
    else {
      slots(slot) = x
      used += 1
      if (used * 2L > slots.length) grow()
      true
    }

  private def grow(): Unit = {
    // Small tables grow faster: to fill one of a million takes nine steps less.
    val larger = new Array[Long](slots.length * (if (slots.length < (1 << 16)) 4 else 2))
    val mask = larger.length - 1
    var k = 0
    while (k < slots.length) {
      val x = slots(k)
      if (x != 0L) {
        var i = LongTable.slot(x) & mask
        while (larger(i) != 0L) i = (i + 1) & mask
        larger(i) = x
      }
      k += 1
    }
    slots = larger
  }

  /** Calls `f` with each member, in no order. */
  def foreach(f: LongConsumer): Unit = {
    if (hasZero) f.accept(0L)
    var k = 0
    while (k < slots.length) {
      if (slots(k) != 0L) f.accept(slots(k))
      k += 1
    }
  }

  /** The members, ascending. */
  def sorted: Array[Long] = {
    val all = new Array[Long](size)
    var k, n = 0
    while (k < slots.length) {
      if (slots(k) != 0L) {
        all(n) = slots(k)
        n += 1
      }
      k += 1
    }
    // Of zero, too, there is room: the array's last element is still zero.
    Arrays.sort(all)
    all
  }
}

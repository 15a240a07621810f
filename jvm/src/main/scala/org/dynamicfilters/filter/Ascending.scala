package org.dynamicfilters.filter

import java.util.function.LongConsumer

/** Distinct longs in ascending order, held in less than eight bytes each. Immutable. */
private[filter] trait Ascending {

  /** How many there are. */
  def size: Long

  /** Of at least one; as is [[greatest]]. */
  def least: Long

  def greatest: Long

  /** How many upper halves (of 32 bits) they have. */
  def parts: Int

  /** Calls `f` with each, ascending. */
  def foreach(f: LongConsumer): Unit

  final def toArray: Array[Long] = {
    val all = new Array[Long](Math.toIntExact(size))
    var n = 0
    foreach { x =>
      all(n) = x
      n += 1
    }
    all
  }
}

package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

/**
 * Longs one after the other in an array that grows; sorted, and repeated ones dropped, when they are asked for, and before
 * where most of them are repeated. A number costs some 3 ns while it is added and some 20 when all are sorted: in a hash table
 * it was 125 ns, most of which had been for nothing where the table was given up.
 *
 * Memory: at most twice as many longs as there may be distinct ones, and as much again for a moment to sort them.
 *
 * @param most
 *   how many distinct numbers there may be; at most 2^29
 */
private[filter] final class AppendedLongs(most: Int) {
  import AppendedLongs._

  private val mostRoom = math.max(firstLook, most * 2)
  private var xs = new Array[Long](firstRoom)
  private var used = 0

  // What was looked at: the first `counted` of them, and all that came before.
  private var counted = 0
  private var estimate: DistinctEstimate = _
  private var about = 0.0
  private var surely = 1.0
  private var lo = Long.MaxValue
  private var hi = Long.MinValue

  // Numbers that are in the array already, each where its hash says; null as long as few are repeated.
  private var recent: Array[Long] = _
  private var shift = 0

  /** False if there is no room for another: then [[makeRoom]] must be called. */
  def add(x: Long): Boolean = {
    if (recent != null) {
      val i = placeOf(x)
      if (recent(i) == x) return true
      recent(i) = x
    }
    xs(used) = x
    used += 1
    used < xs.length
  }

  private def placeOf(x: Long): Int = {
    val h = x * 0x9e3779b97f4a7c15L
    ((h ^ (h >>> 32)) * 0xd6e8feb86659fd93L >>> shift).toInt
  }

  /** Whether there are so many that it is worth to think of another way to keep them. */
  def isWorthALook: Boolean = used >= firstLook

  /** Whether they are enough to tell what is to come, and nearly all different. */
  def isSample: Boolean = used >= sample && about >= used * sampleDifferent

  /** After [[look]]: about how many distinct ones there are, and the ends; all within a few per cent, but for the ends. */
  def distinct: Int = math.min(about, Int.MaxValue.toDouble).toInt
  def least: Long = lo
  def greatest: Long = hi

  /** So many distinct ones there are for certain among those that were looked at; after [[result]] exactly. */
  def atLeast: Long = (about * surely).toLong

  /** Looks at what was added since the last time. */
  def look(): Unit = {
    if (estimate == null) estimate = new DistinctEstimate(most)
    var (a, b) = (lo, hi)
    var i = counted
    while (i < used) {
      val x = xs(i)
      estimate.add(x)
      a = math.min(a, x)
      b = math.max(b, x)
      i += 1
    }
    if (counted < used) {
      about = estimate.distinct
      surely = atLeastShare
    }
    counted = used
    lo = a
    hi = b
  }

  /** False if there are more distinct ones than there may be. */
  def makeRoom(): Boolean =
    if (!isWorthALook) {
      xs = Arrays.copyOf(xs, xs.length * 4)
      true
    } else {
      look()
      if (atLeast > most) false
      else if (about > xs.length / 2 && xs.length < mostRoom) {
        grow()
        if (about < used * fewRepeated) remember()
        true
      } else {
        compact()
        // Fewer may have been repeated than was thought.
        if (used > xs.length / 4 * 3 && xs.length < mostRoom) grow()
        remember()
        used <= most
      }
    }

  private def grow(): Unit = xs = Arrays.copyOf(xs, math.min(mostRoom.toLong, xs.length * 2L).toInt)

  /** Calls `f` with each; repeatedly with those that are repeated. */
  def foreach(f: LongConsumer): Unit = {
    var i = 0
    while (i < used) {
      f.accept(xs(i))
      i += 1
    }
  }

  /** The distinct ones; None if they are more than there may be. At the end: nothing may be added any more. */
  def result(): Option[LongRun] = {
    compact()
    Option.when(used <= most)(LongRun.of(xs, used))
  }

  private def compact(): Unit = {
    used = LongSort.distinct(xs, used)
    counted = used
    about = used.toDouble
    surely = 1.0
  }

  /** Most are repeated: from now on those that are known are not added again, as far as the places for them suffice. */
  private def remember(): Unit = {
    val places = math.max(fewestPlaces, math.min(mostPlaces, Integer.highestOneBit(math.min(used, mostPlaces)) * 8))
    if (recent == null || recent.length < places) {
      shift = 64 - Integer.numberOfTrailingZeros(places)
      recent = new Array[Long](places)
      // A free place holds zero, whose own place is the first: there it must not be found before it is there.
      recent(0) = 1L
      var i = 0
      while (i < used) {
        recent(placeOf(xs(i))) = xs(i)
        i += 1
      }
    }
  }
}

private[filter] object AppendedLongs {
  private val firstRoom = 128

  /** Up to here they stay within the processor's first cache; a power of four times [[firstRoom]]. */
  val firstLook: Int = firstRoom * 16

  /** Of an estimate: so many there are for certain. */
  private val atLeastShare = 0.9

  /** If a greater share of the numbers is distinct, it does not pay to look for each whether it is known. */
  private val fewRepeated = 0.8

  /** Of 100,000 numbers in no order, more than so many would be repeated among the first of them. */
  private val sample = 1 << 14
  private val sampleDifferent = 0.95

  /** Half a MiB: within the processor's second cache. */
  private val mostPlaces = 1 << 16
  private val fewestPlaces = 1 << 10
}

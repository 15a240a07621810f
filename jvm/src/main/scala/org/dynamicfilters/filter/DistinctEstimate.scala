package org.dynamicfilters.filter

/**
 * About how many distinct longs there are: linear counting (Whang, Vander-Zanden, Taylor, 1990). Each number sets the bit that
 * its hash names; the share of bits that stay free tells how many there were, however often each of them came.
 *
 * @param most
 *   up to four times as many distinct numbers it is right within a few per cent
 */
private[filter] final class DistinctEstimate(most: Int) {
  import DistinctEstimate._

  private val words = {
    val bits = Integer.highestOneBit(math.max(fewestBits, math.min(most, mostBits)))
    new Array[Long](bits >>> 6)
  }
  private val shift = 64 - Integer.numberOfTrailingZeros(words.length << 6)

  def add(x: Long): Unit = {
    // A good hash: one that spreads numbers of equal distances more evenly than chance would have them seem more than they are.
    val h = TupleHash.mix(TupleHash.empty, x) >>> shift
    words((h >>> 6).toInt) |= 1L << h
  }

  def distinct: Double = {
    val bits = words.length.toDouble * 64
    var free = 0L
    var i = 0
    while (i < words.length) {
      free += 64 - java.lang.Long.bitCount(words(i))
      i += 1
    }
    // Without a free bit there are at least about as many as this.
    -bits * math.log(math.max(1L, free) / bits)
  }
}

private object DistinctEstimate {
  private val fewestBits = 1 << 12

  /** 4 MiB. */
  private val mostBits = 1 << 25
}

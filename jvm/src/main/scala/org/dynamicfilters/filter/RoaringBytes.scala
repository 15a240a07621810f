package org.dynamicfilters.filter

import java.nio.ByteBuffer

/**
 * Whether bytes are a 32-bit roaring bitmap as its format has it (github.com/RoaringBitmap/RoaringFormatSpec).
 *
 * The library reads damaged bytes without complaint where their lengths fit: containers out of order, or with a count that
 * is not theirs. Such a bitmap answers wrongly for members that it has, which would lose rows.
 */
private[filter] object RoaringBytes {
  private val cookie = 12347
  private val cookieWithoutRuns = 12346

  /** With fewer containers than this, a bitmap that has runs has no offsets. */
  private val fewestWithOffsets = 4

  /** Up to here a container is an array, above it is 65536 bits. */
  private val largestArray = 4096
  private val bitsBytes = 8192

  /** Where the bitmap that starts at `start` ends; -1 if it is not valid or not empty. `in` is little endian. */
  def end(in: ByteBuffer, start: Int): Int =
    try containers(in, start)
    catch { case _: IndexOutOfBoundsException => -1 }

  // Reads by index only, and every read is checked by the buffer: what runs past the end is an exception.
  private def containers(in: ByteBuffer, start: Int): Int = {
    val first = in.getInt(start)
    val hasRuns = (first & 0xffff) == cookie
    if (!hasRuns && first != cookieWithoutRuns) return -1
    val n = if (hasRuns) (first >>> 16) + 1 else in.getInt(start + 4)
    if (n < 1 || n > 65536) return -1
    val runFlags = start + 4
    val header = if (hasRuns) runFlags + (n + 7) / 8 else start + 8
    var at = header + 4 * n + (if (!hasRuns || n >= fewestWithOffsets) 4 * n else 0)
    var i = 0
    while (i < n) {
      val key = u16(in, header + 4 * i)
      val count = u16(in, header + 4 * i + 2) + 1
      if (i > 0 && key <= u16(in, header + 4 * i - 4)) return -1
      val isRun = hasRuns && (in.get(runFlags + i / 8) & (1 << (i % 8))) != 0
      at = if (isRun) runs(in, at) else if (count <= largestArray) array(in, at, count) else bits(in, at, count)
      if (at < 0) return -1
      i += 1
    }
    at
  }

  private def runs(in: ByteBuffer, at: Int): Int = {
    val n = u16(in, at)
    var previous = -2
    var i = 0
    while (i < n) {
      val from = u16(in, at + 2 + 4 * i)
      val to = from + u16(in, at + 4 + 4 * i)
      if (from <= previous || to > 65535) return -1
      previous = to
      i += 1
    }
    if (n == 0) -1 else at + 2 + 4 * n
  }

  private def array(in: ByteBuffer, at: Int, count: Int): Int = {
    var previous = -1
    var i = 0
    while (i < count) {
      val x = u16(in, at + 2 * i)
      if (x <= previous) return -1
      previous = x
      i += 1
    }
    at + 2 * count
  }

  private def bits(in: ByteBuffer, at: Int, count: Int): Int = {
    var found = 0
    var i = 0
    while (i < bitsBytes) {
      found += java.lang.Long.bitCount(in.getLong(at + i))
      i += 8
    }
    if (found == count) at + bitsBytes else -1
  }

  private def u16(in: ByteBuffer, at: Int): Int = in.getShort(at) & 0xffff
}

package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.LongConsumer

import com.google.protobuf.{ByteString, CodedInputStream, CodedOutputStream, UnsafeByteOperations, WireFormat}

/**
 * Ascending distinct longs as the distance of each from the one before, in one to ten bytes: the steps of `PackedLongs` in
 * proto/filters.proto. It is read from its beginning only.
 *
 * @param first
 *   the least; 0 if there is none
 * @param count
 *   how many there are
 * @param bytes
 *   of which those from `from` until `until` are the steps; never changed
 */
private[filter] final class LongRun private (
    first: Long,
    count: Int,
    bytes: Array[Byte],
    from: Int,
    until: Int,
    last: Long,
    override val parts: Int
) extends Ascending
    with Serializable {

  def isEmpty: Boolean = count == 0
  override def size: Long = count.toLong
  override def least: Long = first
  override def greatest: Long = last

  /** About as many as [[encode]] has. */
  def sizeInBytes: Long = (until - from).toLong

  override def foreach(f: LongConsumer): Unit = {
    val c = cursor
    while (c.advance()) f.accept(c.value)
  }

  def contains(x: Long): Boolean = {
    val c = cursor
    while (c.advance()) if (c.value == x) return true
    false
  }

  private[filter] def cursor: LongRun.Cursor = new LongRun.Cursor(first, count, bytes, from)

  /** A `PackedLongs` message; the steps are not copied. */
  def encode: ByteString = {
    import CodedOutputStream._
    val steps = until - from
    val head = new Array[Byte](computeSInt64Size(1, first) + computeTagSize(2) + computeUInt32SizeNoTag(steps))
    val out = newInstance(head)
    if (count > 0) out.writeSInt64(1, first)
    if (steps > 0) {
      out.writeTag(2, WireFormat.WIRETYPE_LENGTH_DELIMITED)
      out.writeUInt32NoTag(steps)
    }
    val tail = new Array[Byte](computeUInt32Size(3, count))
    newInstance(tail).writeUInt32(3, count)
    UnsafeByteOperations
      .unsafeWrap(head, 0, head.length - out.spaceLeft)
      .concat(UnsafeByteOperations.unsafeWrap(bytes, from, steps))
      .concat(UnsafeByteOperations.unsafeWrap(tail))
  }

  override def equals(other: Any): Boolean = other match {
    case that: LongRun => that.sameAs(first, count, bytes, from, until)
    case _ => false
  }

  private def sameAs(first: Long, count: Int, bytes: Array[Byte], from: Int, until: Int): Boolean =
    this.first == first && this.count == count &&
      Arrays.equals(this.bytes, this.from, this.until, bytes, from, until)

  override def hashCode: Int = (first.hashCode * 31 + last.hashCode) * 31 + count

  override def toString: String = s"LongRun($count)"
}

private[filter] object LongRun {

  val empty: LongRun = new LongRun(0L, 0, Array.emptyByteArray, 0, 0, 0L, 0)

  /** Of ascending distinct numbers. */
  def of(sorted: Array[Long]): LongRun = of(sorted, sorted.length)

  /** Of the first `n` of ascending distinct numbers. */
  def of(sorted: Array[Long], n: Int): LongRun = {
    var bytes = 0L
    var i = 1
    while (i < n) {
      bytes += CodedOutputStream.computeUInt64SizeNoTag(sorted(i) - sorted(i - 1))
      i += 1
    }
    val made = new Builder(bytes)
    i = 0
    while (i < n) {
      made.accept(sorted(i))
      i += 1
    }
    made.result()
  }

  /** Of the distinct numbers with which `foreach` calls in ascending order; twice. */
  def of(foreach: LongConsumer => Unit): LongRun = {
    val size = new Sizes
    foreach(size)
    val made = new Builder(size.bytes)
    foreach(made)
    made.result()
  }

  /** How many bytes the steps take of numbers that come in ascending order. */
  private final class Sizes extends LongConsumer {
    var bytes = 0L
    private var before = 0L
    private var any = false

    override def accept(x: Long): Unit = {
      if (any) bytes += CodedOutputStream.computeUInt64SizeNoTag(x - before)
      before = x
      any = true
    }
  }

  /**
   * The numbers of all of them, each once. Takes no more bytes than they have together, and a few for each.
   */
  def union(runs: Seq[LongRun]): LongRun = runs.filterNot(_.isEmpty) match {
    case Seq() => empty
    case Seq(only) => only
    case several => merge(several)
  }

  /**
   * Takes the numbers of all runs up to some bound, sorts them, and so on: two sorts of digits cost less than the comparisons
   * of a heap, of which no processor foresees the outcome.
   */
  private def merge(runs: Seq[LongRun]): LongRun = {
    // The step to a number is at most what it was in its own run; only the first of each run had none.
    val made = new Builder(runs.iterator.map(_.sizeInBytes + mostOfStep).sum)
    val cursors = runs.map(_.cursor).toArray
    cursors.foreach(_.advance())
    var n = cursors.length
    var window = new Array[Long](windowSize * 2)
    var scratch = Array.emptyLongArray
    var width = 1L << 20
    while (n > 0) {
      val least = leastOf(cursors, n)
      val bound = if (least > Long.MaxValue - width) Long.MaxValue else least + width
      var used, i = 0
      while (i < n) {
        val c = cursors(i)
        var more = true
        while (more && c.value <= bound) {
          if (used == window.length) window = Arrays.copyOf(window, used * 2)
          window(used) = c.value
          used += 1
          more = c.advance()
        }
        if (more) i += 1
        else {
          n -= 1
          cursors(i) = cursors(n)
        }
      }
      if (used < windowSize / 4) width = math.min(width, Long.MaxValue / 4) * 4
      else if (used > windowSize) width = math.max(width / 4, 1)
      if (scratch.length < window.length) scratch = new Array[Long](window.length)
      used = LongSort.distinct(window, used, scratch)
      i = 0
      while (i < used) {
        made.accept(window(i))
        i += 1
      }
    }
    made.result()
  }

  private def leastOf(cursors: Array[Cursor], n: Int): Long = {
    var least = cursors(0).value
    var i = 1
    while (i < n) {
      least = math.min(least, cursors(i).value)
      i += 1
    }
    least
  }

  /** So many are sorted in the processor's second cache. */
  private val windowSize = 1 << 14

  /** The numbers in the bytes of a `PackedLongs` message, or why there are none. Nothing is made but a copy of the bytes. May
    * throw what protobuf throws.
    */
  def decode(b: ByteString): Either[String, LongRun] = {
    val bytes = b.toByteArray
    val in = CodedInputStream.newInstance(bytes)
    var first = 0L
    var count, from, until = 0
    var tag = in.readTag()
    while (tag != 0) {
      (WireFormat.getTagFieldNumber(tag), WireFormat.getTagWireType(tag)) match {
        case (1, WireFormat.WIRETYPE_VARINT) => first = in.readSInt64()
        case (2, WireFormat.WIRETYPE_LENGTH_DELIMITED) if until == 0 =>
          val length = in.readRawVarint32()
          from = in.getTotalBytesRead
          in.skipRawBytes(length)
          until = in.getTotalBytesRead
        case (3, WireFormat.WIRETYPE_VARINT) => count = in.readUInt32()
        case _ => return Left("PackedLongs has fields that are not known")
      }
      tag = in.readTag()
    }
    checked(first, count, bytes, from, until)
  }

  /** Whether the steps are as many as it says, end where they should, and ascend. */
  private def checked(first: Long, count: Int, bytes: Array[Byte], from: Int, until: Int): Either[String, LongRun] =
    if (count < 0 || count == 0 && (first != 0L || from < until)) Left(miscounted)
    else if (count == 0) Right(empty)
    else {
      var x = first
      var n, parts = 1
      var at = from
      while (at < until) {
        var step = 0L
        var shift = 0
        var b = -1
        while (b < 0) {
          if (at >= until || shift > 63) return Left("a set whose values do not end where it says")
          b = bytes(at)
          at += 1
          if (shift == 63 && b != 1) return Left("a set whose values are too large")
          step |= (b & 0x7fL) << shift
          shift += 7
        }
        val next = x + step
        // A step of zero, and one that overflows, shows here.
        if (next <= x) return Left("the values of a set do not ascend")
        if ((next >> 32) != (x >> 32)) parts += 1
        x = next
        n += 1
      }
      Either.cond(n == count, new LongRun(first, count, bytes, from, until, x, parts), miscounted)
    }

  private val miscounted = "a set whose values are not as many as it says"

  /** Reads one number after the other. */
  private[filter] final class Cursor(first: Long, private var left: Int, bytes: Array[Byte], private var at: Int) {
    private var begun = false
    var value = 0L

    /** False if there is none left; then `value` is that of the last. */
    def advance(): Boolean =
      if (left == 0) false
      else {
        left -= 1
        if (begun) value += step()
        else {
          value = first
          begun = true
        }
        true
      }

    private def step(): Long = {
      var b = bytes(at)
      at += 1
      var step = b & 0x7fL
      var shift = 7
      while (b < 0) {
        b = bytes(at)
        at += 1
        step |= (b & 0x7fL) << shift
        shift += 7
      }
      step
    }
  }

  private val mostOfStep = 10L

  /**
   * Takes numbers in ascending order.
   *
   * @param room
   *   how many bytes their steps take at most; IllegalArgumentException if these are more than an array can have
   */
  private final class Builder(room: Long) extends LongConsumer {
    require(room <= Int.MaxValue - 64, s"numbers that take $room bytes")
    private val bytes = new Array[Byte](room.toInt)
    private var at, count, parts = 0
    private var first, last = 0L

    override def accept(x: Long): Unit = {
      if (count == 0) {
        first = x
        parts = 1
      } else {
        if ((x >> 32) != (last >> 32)) parts += 1
        put(x - last)
      }
      last = x
      count += 1
    }

    private def put(step: Long): Unit = {
      var rest = step
      var i = at
      while ((rest & ~0x7fL) != 0L) {
        bytes(i) = (rest | 0x80L).toByte
        i += 1
        rest >>>= 7
      }
      bytes(i) = rest.toByte
      at = i + 1
    }

    def result(): LongRun = if (count == 0) empty else new LongRun(first, count, bytes, 0, at, last, parts)
  }
}

package org.dynamicfilters.filter

import java.nio.{ByteBuffer, ByteOrder}
import java.util.Arrays
import java.util.function.LongConsumer

import org.roaringbitmap.{RoaringBitmap, RoaringBitmapWriter}

/**
 * A set of longs, compressed: one roaring bitmap of the lower halves for each upper half that occurs. Immutable, not empty.
 *
 * RoaringBitmap's own 64-bit classes are not used: the bytes of one are no portable format, and the other walks a tree for
 * every value asked for.
 *
 * @param highs
 *   the upper halves in signed order, so that the longs are in signed order too
 * @param lows
 *   the bitmap of each; none is empty
 */
private[filter] final class LongRoaring private (private val highs: Array[Int], private val lows: Array[RoaringBitmap])
    extends Ascending
    with Serializable {

  override val size: Long = lows.iterator.map(_.getLongCardinality).sum

  override def least: Long = first(0)

  override def greatest: Long = last(highs.length - 1)

  def contains(x: Long): Boolean = {
    val i = Arrays.binarySearch(highs, high(x))
    i >= 0 && lows(i).contains(x.toInt)
  }

  /** The least member that is not below x. */
  def ceiling(x: Long): Option[Long] = {
    val i = Arrays.binarySearch(highs, high(x))
    // An unsigned number, or negative if there is none.
    val low = if (i >= 0) lows(i).nextValue(x.toInt) else -1L
    val after = if (i >= 0) i + 1 else -i - 1
    if (low >= 0) Some(join(highs(i), low)) else Option.when(after < highs.length)(first(after))
  }

  /** The greatest member that is not above x. */
  def floor(x: Long): Option[Long] = {
    val i = Arrays.binarySearch(highs, high(x))
    val low = if (i >= 0) lows(i).previousValue(x.toInt) else -1L
    val before = if (i >= 0) i - 1 else -i - 2
    if (low >= 0) Some(join(highs(i), low)) else Option.when(before >= 0)(last(before))
  }

  /** How many members there are from lo to hi, both included. */
  def countBetween(lo: Long, hi: Long): Long =
    slices(lo, hi)((_, bitmap, from, to) =>
      if (isWhole(from, to)) bitmap.getLongCardinality else bitmap.rangeCardinality(from, to)
    ).sum

  /** The members from lo to hi, both included; None if there are none. */
  def between(lo: Long, hi: Long): Option[LongRoaring] =
    LongRoaring.of(slices(lo, hi) { (high, bitmap, from, to) =>
      high -> (if (isWhole(from, to)) bitmap else bitmap.selectRange(from, to))
    })

  /** The members of both; None if there are none. */
  def and(other: LongRoaring): Option[LongRoaring] =
    LongRoaring.of(for {
      i <- highs.indices
      j = Arrays.binarySearch(other.highs, highs(i))
      if j >= 0
    } yield highs(i) -> RoaringBitmap.and(lows(i), other.lows(j)))

  // Not by the library's contains: it does not look at the last number of a run (seen in 1.3.0 and 1.6.10, where a bitmap is to
  // contain a run).
  def isSubsetOf(other: LongRoaring): Boolean = highs.indices.forall { i =>
    val j = Arrays.binarySearch(other.highs, highs(i))
    j >= 0 && RoaringBitmap.and(lows(i), other.lows(j)).getLongCardinality == lows(i).getLongCardinality
  }

  // Not by the library's forEach: of a run that begins at 2^31, or that many numbers after it as it is long, it comes to none (seen
  // in 1.3.0 and 1.6.10: the least int minus the run's length is a great number).
  override def foreach(f: LongConsumer): Unit = {
    val buffer = new Array[Int](LongRoaring.Batch)
    highs.indices.foreach { i =>
      val base = highs(i).toLong << 32
      val batches = lows(i).getBatchIterator
      while (batches.hasNext) {
        val n = batches.nextBatch(buffer)
        var j = 0
        while (j < n) {
          f.accept(base | (buffer(j) & LongRoaring.lowBits))
          j += 1
        }
      }
    }
  }

  override def parts: Int = highs.length

  /** As [[encode]] would have it. */
  def sizeInBytes: Long = 8L + lows.iterator.map(4L + _.serializedSizeInBytes).sum

  /** The portable serialization of 64-bit roaring bitmaps. IllegalArgumentException if it does not fit in an array. */
  def encode: Array[Byte] = {
    require(sizeInBytes <= Int.MaxValue - 64, s"a bitmap of $sizeInBytes bytes")
    val out = ByteBuffer.allocate(sizeInBytes.toInt).order(ByteOrder.LITTLE_ENDIAN)
    out.putLong(highs.length.toLong)
    // The format has the upper halves in unsigned order: the negative ones come last.
    val (negative, positive) = highs.indices.partition(highs(_) < 0)
    (positive ++ negative).foreach { i =>
      out.putInt(highs(i))
      lows(i).serialize(out)
    }
    out.array
  }

  /** `f` of each bitmap that overlaps lo to hi, with its upper half and the part of it from `from` until `to`. */
  private def slices[T](lo: Long, hi: Long)(f: (Int, RoaringBitmap, Long, Long) => T): Seq[T] =
    highs.indices.collect {
      case i if highs(i) >= high(lo) && highs(i) <= high(hi) =>
        val from = if (highs(i) == high(lo)) lo & LongRoaring.lowBits else 0L
        val to = if (highs(i) == high(hi)) (hi & LongRoaring.lowBits) + 1 else LongRoaring.lowBits + 1
        f(highs(i), lows(i), from, to)
    }

  private def isWhole(from: Long, to: Long): Boolean = from == 0L && to > LongRoaring.lowBits

  private def high(x: Long): Int = (x >> 32).toInt

  private def join(high: Int, low: Long): Long = (high.toLong << 32) | low

  private def first(i: Int): Long = join(highs(i), lows(i).first & LongRoaring.lowBits)

  private def last(i: Int): Long = join(highs(i), lows(i).last & LongRoaring.lowBits)

  override def equals(other: Any): Boolean = other match {
    case that: LongRoaring =>
      Arrays.equals(that.highs, highs) && highs.indices.forall(i => that.lows(i) == lows(i))
    case _ => false
  }

  // Not that of the bitmaps: it may differ between containers that are equal.
  override def hashCode: Int = (Arrays.hashCode(highs) * 31 + least.hashCode) * 31 + size.hashCode
}

private[filter] object LongRoaring {

  private val lowBits: Long = 0xffffffffL

  /** Numbers that are taken from a bitmap at a time. */
  private val Batch = 256

  /** The set of ascending distinct numbers, of which there is at least one. */
  def of(sorted: Array[Long]): LongRoaring = of(LongValues.each(sorted, _))

  /** The same of those with which `foreach` calls. */
  def of(foreach: LongConsumer => Unit): LongRoaring = {
    val builder = new LongRoaringBuilder
    foreach(builder)
    builder.result()
  }

  /** The members of all of them, of which there is at least one. */
  def union(sets: Seq[LongRoaring]): LongRoaring = sets match {
    case Seq(only) => only
    case _ =>
      val byHigh = sets.flatMap(s => s.highs.toSeq.zip(s.lows)).groupMap(_._1)(_._2)
      make(byHigh.toSeq.sortBy(_._1).map { case (high, lows) =>
        val all = if (lows.size == 1) lows.head else RoaringBitmap.or(lows: _*)
        all.runOptimize()
        all.trim()
        high -> all
      })
  }

  /** Of parts in ascending order of the upper halves; IllegalArgumentException if none has a member. */
  def make(parts: Seq[(Int, RoaringBitmap)]): LongRoaring =
    of(parts).getOrElse(throw new IllegalArgumentException("a bitmap without members"))

  /** How many bitmaps these ascending numbers would take; many small ones cost more than the numbers. */
  def parts(sorted: Array[Long]): Int = {
    var i, n = 0
    while (i < sorted.length) {
      if (i == 0 || (sorted(i) >> 32) != (sorted(i - 1) >> 32)) n += 1
      i += 1
    }
    n
  }

  /** The set in [[LongRoaring.encode]]'s bytes, or why there is none. Never throws. */
  def decode(b: Array[Byte]): Either[String, LongRoaring] = {
    val in = ByteBuffer.wrap(b).order(ByteOrder.LITTLE_ENDIAN)
    // A bitmap with one member takes 22 bytes, and its upper half 4.
    if (b.length < 8 || in.getLong(0) < 1 || in.getLong(0) > b.length / 12) Left("a bitmap has no valid header")
    else {
      val n = in.getLong(0).toInt
      val parts = new Array[(Int, RoaringBitmap)](n)
      var at = 8
      var i = 0
      while (i < n) {
        val end = if (at + 4 <= b.length) RoaringBytes.end(in, at + 4) else -1
        if (end < 0) return Left("a bitmap is damaged")
        val high = in.getInt(at)
        if (i > 0 && Integer.compareUnsigned(high, parts(i - 1)._1) <= 0)
          return Left("the parts of a bitmap do not ascend")
        val bitmap = new RoaringBitmap()
        bitmap.deserialize(in.duplicate().position(at + 4).limit(end).slice().order(ByteOrder.LITTLE_ENDIAN))
        parts(i) = high -> bitmap
        at = end
        i += 1
      }
      if (at != b.length) Left("a bitmap has more bytes than members")
      else of(parts.toSeq.sortBy(_._1)).toRight("a bitmap has no members")
    }
  }

  /** In ascending order of the upper halves; empty bitmaps are left out. */
  private def of(parts: Seq[(Int, RoaringBitmap)]): Option[LongRoaring] = {
    val full = parts.filterNot(_._2.isEmpty)
    Option.when(full.nonEmpty)(new LongRoaring(full.map(_._1).toArray, full.map(_._2).toArray))
  }
}

/** Makes a set of numbers that come in ascending order. Holds nothing larger than the bitmaps themselves, which are made of
  * small pieces: no long array, however many there are.
  */
private[filter] final class LongRoaringBuilder extends LongConsumer {
  private val parts = Seq.newBuilder[(Int, RoaringBitmap)]
  private var high = 0
  private var writer: RoaringBitmapWriter[RoaringBitmap] = _

  override def accept(x: Long): Unit = {
    if (writer == null || (x >> 32).toInt != high) {
      end()
      high = (x >> 32).toInt
      writer = RoaringBitmapWriter.writer().get()
    }
    writer.add(x.toInt)
  }

  private def end(): Unit = if (writer != null) {
    writer.flush()
    val bitmap = writer.get()
    bitmap.runOptimize()
    bitmap.trim()
    parts += high -> bitmap
  }

  /** The set, of at least one number; once. */
  def result(): LongRoaring = {
    end()
    LongRoaring.make(parts.result())
  }
}

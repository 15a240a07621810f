package org.dynamicfilters.filter

import java.io.{ByteArrayInputStream, DataInputStream}
import java.nio.{ByteBuffer, ByteOrder}
import java.util.Arrays
import java.util.function.LongConsumer

import scala.util.control.NonFatal

import org.roaringbitmap.{Container, RoaringBitmap, RoaringBitmapWriter, RunContainer}

import org.apache.spark.sql.types.{ByteType, DateType, IntegerType, LongType, ShortType}

/** A non-empty set of many longs, compressed: a roaring bitmap of the lower 32 bits for each upper half that occurs.
  *
  * RoaringBitmap's own 64-bit classes are not used. Roaring64Bitmap has no portable serialization, and searches a tree
  * for each added number. Roaring64NavigableMap reads bitmaps in unsigned order only, has no search for the next
  * member, and changes fields when it is read, so threads cannot share it.
  *
  * @param highs the upper halves that occur, in signed order, which is the order of the longs
  * @param lows by upper half, the bitmap of its lower halves; never empty
  */
final class LongBitmap private (
    val domain: LongDomain,
    private val highs: Array[Int],
    private val lows: Array[RoaringBitmap]
) extends LongSet {
  import LongBitmap._

  override val size: Long = lows.iterator.map(_.getLongCardinality).sum
  override def form: String = "bitmap"
  override def text: String = s"bitmap of $values"
  override def least: Long = first(0)
  override def greatest: Long = last(highs.length - 1)
  private[filter] override def upperHalves: Int = highs.length
  override def as(other: LongDomain): LongBitmap = new LongBitmap(other, highs, lows)

  override def containsLong(x: Long): Boolean = {
    val i = Arrays.binarySearch(highs, high(x))
    i >= 0 && lows(i).contains(x.toInt)
  }

  override def ceiling(x: Long): Option[Long] = {
    val i = Arrays.binarySearch(highs, high(x))
    // An unsigned number; negative if there is none.
    val low = if (i >= 0) lows(i).nextValue(x.toInt) else -1L
    val after = if (i >= 0) i + 1 else -i - 1
    if (low >= 0) Some(join(highs(i), low)) else Option.when(after < highs.length)(first(after))
  }

  override def floor(x: Long): Option[Long] = {
    val i = Arrays.binarySearch(highs, high(x))
    val low = if (i >= 0) lows(i).previousValue(x.toInt) else -1L
    val before = if (i >= 0) i - 1 else -i - 2
    if (low >= 0) Some(join(highs(i), low)) else Option.when(before >= 0)(last(before))
  }

  override def countBetween(lo: Long, hi: Long): Long =
    slices(lo, hi)((i, from, until) => lows(i).rangeCardinality(from, until)).sum

  override def between(lo: Long, hi: Long): Option[LongBitmap] =
    if (lo <= least && hi >= greatest) Some(this)
    else joined(domain, slices(lo, hi)((i, from, until) => highs(i) -> lows(i).selectRange(from, until)))

  /** The members of both; None if there are none. */
  private[filter] def and(other: LongBitmap): Option[LongBitmap] =
    joined(domain, common(other)((a, b, high) => high -> RoaringBitmap.and(a, b)))

  // RoaringBitmap.contains(RoaringBitmap) cannot be used: it ignores the last number of a run (1.3.0 and 1.6.10, if the
  // argument is a run).
  private[filter] def isSubsetOf(other: LongBitmap): Boolean =
    common(other)((a, b, _) => RoaringBitmap.and(a, b).getLongCardinality).sum == size

  // RoaringBitmap.forEach cannot be used: it skips a run that begins at or shortly after 2^31 (1.3.0 and 1.6.10; the
  // least Int minus the run's length overflows).
  override def foreach(f: LongConsumer): Unit = {
    val batch = new Array[Int](256)
    highs.indices.foreach { i =>
      val base = highs(i).toLong << 32
      val batches = lows(i).getBatchIterator
      while (batches.hasNext) {
        val n = batches.nextBatch(batch)
        var j = 0
        while (j < n) {
          f.accept(base | (batch(j) & lowBits))
          j += 1
        }
      }
    }
  }

  /** Number of bytes that [[encode]] returns. */
  private[filter] override def sizeInBytes: Long = 8L + lows.iterator.map(4L + _.serializedSizeInBytes).sum

  /** The portable serialization of 64-bit roaring bitmaps. Throws IllegalArgumentException if it does not fit into an
    * array.
    */
  private[filter] def encode: Array[Byte] = {
    require(sizeInBytes <= Int.MaxValue - 64, s"a bitmap of $sizeInBytes bytes")
    val out = ByteBuffer.allocate(sizeInBytes.toInt).order(ByteOrder.LITTLE_ENDIAN)
    out.putLong(highs.length.toLong)
    // The format orders upper halves as unsigned numbers, so negative ones come last.
    val (negative, positive) = highs.indices.partition(highs(_) < 0)
    (positive ++ negative).foreach { i =>
      out.putInt(highs(i))
      lows(i).serialize(out)
    }
    out.array
  }

  /** Applies `f` to each bitmap that overlaps [lo, hi], and the range of lower halves in the overlap. */
  private def slices[T](lo: Long, hi: Long)(f: (Int, Long, Long) => T): Seq[T] =
    highs.indices.filter(i => highs(i) >= high(lo) && highs(i) <= high(hi)).map { i =>
      f(
        i,
        if (highs(i) == high(lo)) lo & lowBits else 0L,
        if (highs(i) == high(hi)) (hi & lowBits) + 1 else lowBits + 1
      )
    }

  /** Applies `f` to both bitmaps of each upper half that both sets have. */
  private def common[T](other: LongBitmap)(f: (RoaringBitmap, RoaringBitmap, Int) => T): Seq[T] =
    for {
      i <- highs.indices
      j = Arrays.binarySearch(other.highs, highs(i))
      if j >= 0
    } yield f(lows(i), other.lows(j), highs(i))

  private def first(i: Int): Long = join(highs(i), lows(i).first & lowBits)
  private def last(i: Int): Long = join(highs(i), lows(i).last & lowBits)

  override def equals(other: Any): Boolean = other match {
    case that: LongBitmap =>
      that.domain == domain && Arrays.equals(that.highs, highs) && highs.indices.forall(i => that.lows(i) == lows(i))
    case _ => false
  }

  // The bitmaps' own hash codes may differ for equal containers.
  override def hashCode: Int = (Arrays.hashCode(highs) * 31 + least.hashCode) * 31 + size.hashCode
}

object LongBitmap {

  private val lowBits: Long = 0xffffffffL

  /** A bitmap pays from this many keys on average for each upper half, which costs some 20 bytes encoded and 150 in
    * memory.
    */
  private[filter] val fewest = 16

  /** Whether keys of a type may be held as a bitmap. */
  private[filter] def suits(d: LongDomain): Boolean = d.dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType => true
    case _ => false
  }

  /** Whether the keys are dense enough for a bitmap. */
  private[filter] def pays(keys: LongSet): Boolean = keys.upperHalves.toLong * fewest <= keys.size

  private def high(x: Long): Int = (x >> 32).toInt
  private def join(high: Int, low: Long): Long = (high.toLong << 32) | low

  /** The set of ascending distinct numbers, at least one. Throws IllegalArgumentException otherwise. */
  def build(domain: LongDomain, sorted: Array[Long]): LongBitmap = {
    require(SortedLongs.ascend(sorted), "values of a set do not ascend")
    build(domain, SortedLongs.foreach(sorted, _))
  }

  /** The same for the numbers that `foreach` passes to its argument. Needs no array of all numbers. */
  private[filter] def build(domain: LongDomain, foreach: LongConsumer => Unit): LongBitmap = {
    val parts = Seq.newBuilder[(Int, RoaringBitmap)]
    var writer: RoaringBitmapWriter[RoaringBitmap] = null
    var now = 0
    def end(): Unit = if (writer != null) {
      writer.flush()
      parts += now -> compressed(writer.get())
    }
    foreach { x =>
      if (writer == null || high(x) != now) {
        end()
        now = high(x)
        writer = RoaringBitmapWriter.writer().get()
      }
      writer.add(x.toInt)
    }
    end()
    joined(domain, parts.result()).getOrElse(throw new IllegalArgumentException("a bitmap without members"))
  }

  /** The union of at least one set. */
  private[filter] def union(sets: Seq[LongBitmap]): LongBitmap = {
    val byHigh = sets.flatMap(s => s.highs.toSeq.zip(s.lows)).groupMap(_._1)(_._2)
    joined(
      sets.head.domain,
      byHigh.map { case (high, lows) =>
        high -> (if (lows.size == 1) lows.head else compressed(RoaringBitmap.or(lows: _*)))
      }.toSeq
    ).get
  }

  private def compressed(bitmap: RoaringBitmap): RoaringBitmap = {
    bitmap.runOptimize()
    bitmap.trim()
    bitmap
  }

  /** A set of bitmaps in any order. Empty bitmaps are left out; None if all are empty. */
  private def joined(domain: LongDomain, parts: Seq[(Int, RoaringBitmap)]): Option[LongBitmap] = {
    val full = parts.filterNot(_._2.isEmpty).sortBy(_._1)
    Option.when(full.nonEmpty)(new LongBitmap(domain, full.map(_._1).toArray, full.map(_._2).toArray))
  }

  /** Decodes the portable serialization of a 64-bit roaring bitmap, or says why that is impossible. Never throws. */
  def decode(domain: LongDomain, bytes: Array[Byte]): Either[String, LongBitmap] =
    try read(domain, bytes)
    catch { case NonFatal(_) => Left("a bitmap is damaged") }

  private def read(domain: LongDomain, bytes: Array[Byte]): Either[String, LongBitmap] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val n = java.lang.Long.reverseBytes(in.readLong())
    // A bitmap of one member takes 22 bytes, and its upper half 4.
    if (n < 1 || n > bytes.length / 12) Left("a bitmap has no valid header")
    else {
      val buffer = new Array[Byte](8192)
      val parts = Seq.fill(n.toInt) {
        val high = Integer.reverseBytes(in.readInt())
        val bitmap = new RoaringBitmap()
        bitmap.deserialize(in, buffer)
        high -> bitmap
      }
      if (in.available > 0) Left("a bitmap has more bytes than members")
      else if (parts.map(_._1).distinct.size < parts.size) Left("a bitmap has an upper half twice")
      else if (!parts.forall(p => isSound(p._2))) Left("a bitmap is damaged")
      else joined(domain, parts).toRight("a bitmap has no members")
    }
  }

  /** Whether a bitmap has as many members as it says, in ascending order, and no empty container. RoaringBitmap accepts
    * damaged bytes if their lengths fit; such a bitmap may miss its own members, which would lose rows.
    */
  private def isSound(bitmap: RoaringBitmap): Boolean = {
    val containers = bitmap.getContainerPointer
    var key = -1
    while (containers.getContainer != null && containers.key > key && isSound(containers.getContainer)) {
      key = containers.key
      containers.advance()
    }
    containers.getContainer == null
  }

  // Takes time by the container's bytes. A run of 65,536 members has four.
  private def isSound(container: Container): Boolean = {
    var before = -1
    var ascends = true
    def see(from: Int, to: Int): Unit = {
      ascends &= from > before && to <= 0xffff
      before = to
    }
    container match {
      case runs: RunContainer =>
        (0 until runs.numberOfRuns).foreach(i => see(runs.getValue(i), runs.getValue(i) + runs.getLength(i)))
        ascends && runs.numberOfRuns > 0
      case other =>
        var count = 0
        val members = other.getCharIterator
        while (members.hasNext && ascends) {
          val x = members.next().toInt
          see(x, x)
          count += 1
        }
        ascends && count > 0 && count == other.getCardinality
    }
  }
}

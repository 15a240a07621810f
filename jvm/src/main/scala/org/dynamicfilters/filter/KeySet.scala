package org.dynamicfilters.filter

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.ByteBuffer
import java.util.Arrays
import java.util.function.LongConsumer

import org.apache.spark.sql.types.LongType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.sketch.BloomFilter

/**
 * A set of keys of one domain, without null. Immutable; equal if the content is.
 *
 * A set may say that it contains a key that was never put in (only [[Bloom]] does), never the other way round.
 */
sealed trait KeySet extends Serializable {

  def domain: KeyDomain

  /** How many distinct keys were put in. */
  def size: Long

  /** The name of the form in reports: in, bitmap, bloom. */
  def form: String

  /** What stands in `k IN (...)` in a plan: `951 values`, `bitmap of 120000 values`. No data values. */
  def text: String

  /** Whether only what was put in is contained. */
  def isExact: Boolean

  /** Whether a key, which is not null, is a member. A value of a row or vector that was not copied will do. */
  def contains(key: AnyRef): Boolean

  protected final def values: String = if (size == 1) "1 value" else s"$size values"
}

/** An exact set of keys of a [[LongDomain]]. */
trait LongSet extends KeySet with LongLookup {
  override def domain: LongDomain

  override def isExact: Boolean = true

  /** NoSuchElementException if the set is empty, as is [[greatest]]. */
  def least: Long

  def greatest: Long

  /** How many different upper halves (of 32 bits) the members have. */
  private[filter] def upperHalves: Int

  /** The least member that is not below this. */
  def ceiling(code: Long): Option[Long]

  /** The greatest member that is not above this. */
  def floor(code: Long): Option[Long]

  /** How many members there are from lo to hi, both included; lo is not above hi. */
  def countBetween(lo: Long, hi: Long): Long

  /** Calls `f` with each member, ascending. */
  def foreach(f: LongConsumer): Unit

  /** The members from lo to hi, both included; None if there are none. */
  def between(lo: Long, hi: Long): Option[LongSet]

  /** The same numbers, all of them keys of another domain. */
  def as(other: LongDomain): LongSet

  override def contains(key: AnyRef): Boolean = containsLong(key.asInstanceOf[java.lang.Long].longValue)

  /** For a row at a time. Not built on the driver, where none is looked up. */
  @transient private[filter] lazy val lookup: LongLookup = LongLookup.build(this)

  /** The members, ascending; not to be changed. */
  def toArray: Array[Long] = {
    val all = new Array[Long](Math.toIntExact(size))
    var n = 0
    foreach { x =>
      all(n) = x
      n += 1
    }
    all
  }
}

/**
 * Few keys, one by one.
 *
 * @param sorted
 *   ascending and distinct; never changed. IllegalArgumentException if they are not
 */
final case class LongValues(domain: LongDomain, sorted: Array[Long]) extends LongSet {
  require(SortedLongs.ascend(sorted), "values of a set do not ascend")

  override def size: Long = sorted.length.toLong
  override def form: String = "in"
  override def text: String = values
  override def least: Long = sorted.head
  override def greatest: Long = sorted.last
  private[filter] override def upperHalves: Int = SortedLongs.highs(sorted, sorted.length)
  override def containsLong(code: Long): Boolean = Arrays.binarySearch(sorted, code) >= 0

  override def ceiling(code: Long): Option[Long] = {
    val i = from(code)
    Option.when(i < sorted.length)(sorted(i))
  }

  override def floor(code: Long): Option[Long] = {
    val i = until(code)
    Option.when(i > 0)(sorted(i - 1))
  }

  override def countBetween(lo: Long, hi: Long): Long = (until(hi) - from(lo)).toLong

  override def foreach(f: LongConsumer): Unit = SortedLongs.foreach(sorted, f)

  override def between(lo: Long, hi: Long): Option[LongValues] = {
    val (a, b) = (from(lo), until(hi))
    if (a == 0 && b == sorted.length && b > 0) Some(this)
    else Option.when(a < b)(LongValues(domain, Arrays.copyOfRange(sorted, a, b)))
  }

  override def as(other: LongDomain): LongValues = LongValues(other, sorted)
  override def toArray: Array[Long] = sorted

  /** The index of the first member that is not below this. */
  private def from(code: Long): Int = {
    val i = Arrays.binarySearch(sorted, code)
    if (i >= 0) i else -i - 1
  }

  /** The index after the last member that is not above this. */
  private def until(code: Long): Int = {
    val i = Arrays.binarySearch(sorted, code)
    if (i >= 0) i + 1 else -i - 1
  }

  override def equals(other: Any): Boolean = other match {
    case that: LongValues => that.domain == domain && Arrays.equals(that.sorted, sorted)
    case _ => false
  }

  override def hashCode: Int = Arrays.hashCode(sorted)

  override def toString: String = s"LongValues($domain, $values)"
}

/**
 * Few keys that are objects, one by one.
 *
 * @param sorted
 *   ascending and distinct keys of the domain; never changed. IllegalArgumentException if they do not ascend
 */
final case class ObjectValues(domain: ObjectDomain, sorted: Array[AnyRef]) extends KeySet {
  require(
    (1 until sorted.length).forall(i => domain.compare(sorted(i - 1), sorted(i)) < 0),
    "values of a set do not ascend"
  )

  override def size: Long = sorted.length.toLong
  override def form: String = "in"
  override def text: String = values
  override def isExact: Boolean = true

  override def contains(key: AnyRef): Boolean = {
    val i = search(key)
    i < sorted.length && domain.compare(sorted(i), key) == 0
  }

  /** The members that a range passes. */
  private[filter] def within(r: ValueFilter.Range): ObjectValues = {
    val kept = sorted.filter(r.passesObject)
    if (kept.length == sorted.length) this else ObjectValues(domain, kept)
  }

  /** Whether there is a member from lo to hi, both included. */
  private[filter] def hasBetween(lo: AnyRef, hi: AnyRef): Boolean = {
    val i = search(lo)
    i < sorted.length && domain.compare(sorted(i), hi) <= 0
  }

  /** For a row at a time: one hash instead of many comparisons. */
  @transient private[filter] lazy val lookup: java.util.HashSet[UTF8String] = {
    val all = new java.util.HashSet[UTF8String](sorted.length * 2)
    sorted.foreach(k => all.add(KeyBytes.view(domain, k)))
    all
  }

  /** The index of the first member that is not below this. */
  private def search(key: AnyRef): Int = {
    var lo = 0
    var hi = sorted.length
    while (lo < hi) {
      val mid = (lo + hi) >>> 1
      if (domain.compare(sorted(mid), key) < 0) lo = mid + 1 else hi = mid
    }
    lo
  }

  override def equals(other: Any): Boolean = other match {
    case that: ObjectValues =>
      that.domain == domain && that.sorted.length == sorted.length &&
      sorted.indices.forall(i => End.sameKey(that.sorted(i), sorted(i)))
    case _ => false
  }

  override def hashCode: Int = sorted.foldLeft(sorted.length)((h, k) => h * 31 + End.hashOf(k))

  override def toString: String = s"ObjectValues($domain, $values)"
}

/**
 * Many keys, of which only bits are kept: Spark's Bloom filter over 64-bit codes. The code of a key of a [[LongDomain]] is
 * the key, that of any other a hash of its bytes.
 *
 * @param bits
 *   never changed
 * @param size
 *   how many distinct keys were put in, not what the bits show
 */
final case class Bloom(domain: KeyDomain, bits: BloomFilter, size: Long) extends KeySet {
  override def form: String = "bloom"
  override def text: String = s"bloom filter of $values"
  override def isExact: Boolean = false
  override def contains(key: AnyRef): Boolean = bits.mightContainLong(Bloom.code(domain, key))

  def encodeBits: Array[Byte] = {
    val out = new ByteArrayOutputStream()
    bits.writeTo(out)
    out.toByteArray
  }

  override def toString: String = s"Bloom($domain, $values)"
}

object Bloom {

  /** What stands for the keys of an [[ObjectDomain]]. */
  private[filter] val hashes: LongDomain = new LongDomain(LongType)

  /** More than any false positive rate asks for; each one costs time per row. */
  private val mostHashes = 64

  /** What stands for a key of the domain. */
  def code(domain: KeyDomain, key: AnyRef): Long = domain match {
    case _: LongDomain => key.asInstanceOf[java.lang.Long].longValue
    case d: ObjectDomain => KeyBytes.hash(KeyBytes.view(d, key))
  }

  /** A filter of distinct codes, at least one, that aims at a false positive rate between 0 and 1.
    *
    * @param room
    *   for how many codes it is made, if not only for these. One of a few words is far worse than it aims at
    */
  def build(domain: KeyDomain, codes: Array[Long], fpp: Double, room: Int = 1): Bloom =
    build(domain, codes.length.toLong, SortedLongs.foreach(codes, _), fpp, room)

  /** The same of `n` codes, with each of which `foreach` calls. */
  private[filter] def build(
      domain: KeyDomain,
      n: Long,
      foreach: LongConsumer => Unit,
      fpp: Double,
      room: Int
  ): Bloom = {
    val bits = BloomFilter.create(math.max(n, room.toLong), fpp)
    foreach(code => bits.putLong(code))
    Bloom(domain, bits, n)
  }

  /** About how many bytes a filter of n keys takes. */
  def sizeInBytes(n: Long, fpp: Double): Long = BloomFilter.optimalNumOfBits(n, fpp) / 8 + 24

  /** The filter in Spark's bytes, or why there is none. Allocates no more than there are bytes. */
  def decode(domain: KeyDomain, bytes: Array[Byte], size: Long): Either[String, Bloom] = {
    val in = ByteBuffer.wrap(bytes)
    // Version 2 has a seed after the number of hash functions.
    val header =
      if (bytes.length < 16) -1
      else
        in.getInt(0) match {
          case 1 => 8
          case 2 => 12
          case _ => -1
        }
    if (header < 0) Left("a bloom filter of an unknown version")
    else {
      val words = in.getInt(header)
      if (in.getInt(4) < 1 || in.getInt(4) > mostHashes) Left("a bloom filter with an impossible number of hashes")
      else if (words < 1 || words.toLong * 8 != bytes.length - header - 4L) Left("a bloom filter that is cut short")
      else if (size < 1) Left("a bloom filter without a size")
      else Right(Bloom(domain, BloomFilter.readFrom(new ByteArrayInputStream(bytes)), size))
    }
  }
}

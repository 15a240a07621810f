package org.dynamicfilters.filter

import java.util.Arrays
import java.util.function.{LongConsumer, LongPredicate}

import org.apache.spark.sql.types.LongType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.sketch.BloomFilter

/** A set of non-null keys of one domain. Immutable; sets with equal content are equal.
  *
  * Only [[Bloom]] may report a key that was never added. No set misses a key that was added.
  */
sealed trait KeySet extends Serializable {

  def domain: KeyDomain

  /** Number of distinct keys that were added; for [[LongIntervals]], of intervals. */
  def size: Long

  /** The name of the form in reports: in, bitmap, bloom. */
  def form: String

  /** Text inside `k IN (...)` in plans: `951 values`, `bitmap of 120000 values`. Contains no data values. */
  def text: String

  /** Whether `contains` has no false positives. */
  def isExact: Boolean = true

  /** Whether a non-null key is a member. The key need not be a copy. */
  def contains(key: AnyRef): Boolean

  /** As [[contains]] for the codes of keys, for lookups by row. Only for a set of a [[LongDomain]]. */
  private[filter] def longTest: LongPredicate

  protected final def values: String = if (size == 1) "1 value" else s"$size values"

  override def toString: String = s"${getClass.getSimpleName}($domain, $text)"
}

/** An exact set of keys of a [[LongDomain]]. */
trait LongSet extends KeySet {
  override def domain: LongDomain

  /** Throws NoSuchElementException if the set is empty, as does [[greatest]]. */
  def least: Long

  def greatest: Long

  /** About as many bytes as the set takes encoded. */
  private[filter] def sizeInBytes: Long

  /** How many different upper halves (of 32 bits) the members have. */
  private[filter] def upperHalves: Int

  /** The least member that is at least `code`. */
  def ceiling(code: Long): Option[Long]

  /** The greatest member that is at most `code`. */
  def floor(code: Long): Option[Long]

  /** Number of members from lo to hi, both inclusive; lo <= hi. */
  def countBetween(lo: Long, hi: Long): Long

  /** Calls `f` with each member, ascending. */
  def foreach(f: LongConsumer): Unit

  /** The members from lo to hi, both inclusive; None if there are none. */
  def between(lo: Long, hi: Long): Option[LongSet]

  /** The same numbers, all of them keys of another domain. */
  def as(other: LongDomain): LongSet

  def containsLong(code: Long): Boolean

  override def contains(key: AnyRef): Boolean = containsLong(key.asInstanceOf[java.lang.Long].longValue)

  // Lazy, because the driver looks up no rows.
  @transient private[filter] override lazy val longTest: LongPredicate = LongLookup.build(this)

  /** The members, ascending. Callers must not change the array. */
  def toArray: Array[Long] = SortedLongs.collect(size, foreach(_))
}

/** A set of few longs, as a sorted array.
  *
  * @param sorted ascending and distinct (IllegalArgumentException otherwise); never changed
  */
final case class LongValues(domain: LongDomain, sorted: Array[Long]) extends LongSet {
  require(SortedLongs.ascend(sorted), "values of a set do not ascend")

  override def size: Long = sorted.length.toLong
  override def form: String = "in"
  override def text: String = values
  override def least: Long = sorted.head
  override def greatest: Long = sorted.last
  private[filter] override def upperHalves: Int = SortedLongs.highs(sorted, sorted.length)
  private[filter] override def sizeInBytes: Long = SortedLongs.packedBytes(sorted, sorted.length)
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
}

/** A set of intervals of longs, for joins by ranges: `f.x BETWEEN r.lo AND r.hi`. Immutable.
  *
  * @param ends of each interval its least and its greatest member, in ascending order. Between two intervals there is at
  *   least one number that is in neither. Never changed
  */
final case class LongIntervals(domain: LongDomain, ends: Array[Long]) extends KeySet {

  /** Number of intervals. */
  override def size: Long = (ends.length / 2).toLong
  override def form: String = "in"
  override def text: String = if (size == 1) "1 interval" else s"$size intervals"
  override def contains(key: AnyRef): Boolean = containsLong(key.asInstanceOf[java.lang.Long].longValue)
  private[filter] override def longTest: LongPredicate = containsLong(_)

  private def containsLong(code: Long): Boolean = {
    val i = index(code)
    // Between the ends of an interval, an odd number of ends is below.
    (i < ends.length && ends(i) == code) || (i & 1) == 1
  }

  /** The parts of the intervals from lo to hi, both inclusive; None if there are none. */
  private[filter] def between(lo: Long, hi: Long): Option[LongIntervals] = {
    // The intervals from `first` until `after` have a member from lo to hi.
    val first = index(lo) / 2
    val after = (index(hi) + (if (containsLong(hi)) 2 else 0)) / 2
    Option.when(first < after) {
      val cut = Arrays.copyOfRange(ends, 2 * first, 2 * after)
      cut(0) = cut(0).max(lo)
      cut(cut.length - 1) = cut.last.min(hi)
      LongIntervals(domain, cut)
    }
  }

  /** The index of an end, or of the first one above. */
  private def index(code: Long): Int = {
    val i = Arrays.binarySearch(ends, code)
    if (i >= 0) i else -i - 1
  }

  private[filter] def as(other: LongDomain): LongIntervals = LongIntervals(other, ends)

  /** Whether there is a member from lo to hi, both inclusive. */
  private[filter] def hasBetween(lo: Long, hi: Long): Boolean = {
    val i = index(lo)
    i < ends.length && ((i & 1) == 1 || ends(i) <= hi)
  }

  /** Whether one interval has all numbers from lo to hi, both inclusive. */
  private[filter] def hasAll(lo: Long, hi: Long): Boolean = containsLong(lo) && ends(index(lo) | 1) >= hi

  /** The least and the greatest member of each interval. */
  private[filter] def each: Iterator[(Long, Long)] = ends.grouped(2).map(e => (e(0), e(1)))

  override def equals(other: Any): Boolean = other match {
    case that: LongIntervals => that.domain == domain && Arrays.equals(that.ends, ends)
    case _ => false
  }
  override def hashCode: Int = Arrays.hashCode(ends)
}

object LongIntervals {

  /** The union of intervals, each with its least and its greatest member. */
  def union(domain: LongDomain, intervals: Seq[(Long, Long)]): LongIntervals = {
    val ends = Array.newBuilder[Long]
    var last: Option[(Long, Long)] = None
    intervals.sorted.foreach { case (lo, hi) =>
      last = last match {
        case Some((from, to)) if lo <= to || lo == to + 1 => Some((from, to.max(hi)))
        case before =>
          before.foreach { case (from, to) => ends += from += to }
          Some((lo, hi))
      }
    }
    last.foreach { case (from, to) => ends += from += to }
    LongIntervals(domain, ends.result())
  }
}

/** A set of few keys that are objects, as a sorted array.
  *
  * @param sorted ascending and distinct keys of the domain (IllegalArgumentException otherwise); never changed
  */
final case class ObjectValues(domain: ObjectDomain, sorted: Array[AnyRef]) extends KeySet {
  require(
    (1 until sorted.length).forall(i => domain.compare(sorted(i - 1), sorted(i)) < 0),
    "values of a set do not ascend"
  )

  override def size: Long = sorted.length.toLong
  override def form: String = "in"
  override def text: String = values

  override def contains(key: AnyRef): Boolean = {
    val i = search(key)
    i < sorted.length && domain.compare(sorted(i), key) == 0
  }

  /** The members within a range. */
  private[filter] def within(r: ValueFilter.Range): ObjectValues = {
    val kept = sorted.filter(r.passesObject)
    if (kept.length == sorted.length) this else ObjectValues(domain, kept)
  }

  /** Whether there is a member from lo to hi, both inclusive. */
  private[filter] def hasBetween(lo: AnyRef, hi: AnyRef): Boolean = {
    val i = search(lo)
    i < sorted.length && domain.compare(sorted(i), hi) <= 0
  }

  private[filter] override def longTest: LongPredicate =
    throw new IllegalArgumentException("a set of objects in a filter of numbers")

  /** For lookups by row: one hash instead of many comparisons. */
  @transient private[filter] lazy val lookup: java.util.HashSet[UTF8String] = {
    val all = new java.util.HashSet[UTF8String](sorted.length * 2)
    sorted.foreach(k => all.add(KeyBytes.view(domain, k)))
    all
  }

  /** The index of the first member that is not below this. */
  private def search(key: AnyRef): Int = {
    val i = Arrays.binarySearch(sorted, key, (a: AnyRef, b: AnyRef) => domain.compare(a, b))
    if (i >= 0) i else -i - 1
  }

  override def equals(other: Any): Boolean = other match {
    case that: ObjectValues => that.domain == domain && Arrays.equals(that.sorted, sorted)
    case _ => false
  }

  override def hashCode: Int = Arrays.hashCode(sorted)
}

/** A Bloom filter of many keys: Spark's BloomFilter over 64-bit codes. The code of a key of a [[LongDomain]] is the key
  * itself, that of any other key a hash of its bytes.
  *
  * @param bits never changed
  * @param size number of distinct keys that were added
  */
final case class Bloom(domain: KeyDomain, bits: BloomFilter, size: Long) extends KeySet {
  override def form: String = "bloom"
  override def text: String = s"bloom filter of $values"
  override def isExact: Boolean = false
  override def contains(key: AnyRef): Boolean = bits.mightContainLong(Bloom.code(domain, key))
  private[filter] override def longTest: LongPredicate = bits.mightContainLong(_)
}

object Bloom {

  /** The domain of the codes of an [[ObjectDomain]]'s keys. */
  private[filter] val hashes: LongDomain = new LongDomain(LongType)

  /** The 64-bit code of a key. */
  def code(domain: KeyDomain, key: AnyRef): Long = domain match {
    case _: LongDomain => key.asInstanceOf[java.lang.Long].longValue
    case d: ObjectDomain => KeyBytes.hash(KeyBytes.view(d, key))
  }

  /** A filter of distinct codes, at least one, with a target false positive rate between 0 and 1.
    *
    * @param room size the filter for at least this many codes. Very small filters miss the target rate by far
    */
  def build(domain: KeyDomain, codes: Array[Long], fpp: Double, room: Int = 1): Bloom =
    build(domain, codes.length.toLong, SortedLongs.foreach(codes, _), fpp, room)

  /** The same for `n` codes, which `foreach` passes to its argument. */
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

  /** Approximate bytes of a filter of n keys. */
  def sizeInBytes(n: Long, fpp: Double): Long = BloomFilter.optimalNumOfBits(n, fpp) / 8 + 24
}

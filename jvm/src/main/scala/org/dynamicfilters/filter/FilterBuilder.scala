package org.dynamicfilters.filter

import java.util.function.LongConsumer

import org.apache.spark.sql.types._

/** [[KeyPartial.build]]: the union of all partitions' keys in the form that suits their number and type. */
private[filter] object FilterBuilder {
  import KeyPartial._
  import ValueFilter._

  /** A bitmap costs some 20 bytes, and in memory 150, for each upper half (4 billion numbers wide) that has keys. */
  private val fewestPerPart = 16

  def build(parts: Seq[KeyPartial], limits: KeyLimits, nullsMatch: Boolean): BuiltFilter = {
    parts.headOption.foreach(first => parts.foreach(p => sameDomain(first.domain, p.domain)))
    val nulls = nullsMatch && parts.exists(_.hasNulls)
    parts.filter(_.hasValues) match {
      case Seq() => BuiltFilter(if (nulls) NullsOnly(parts.head.domain) else ValueFilter.Nothing, 0, None)
      case withValues => fitting(withValues, limits, spanned(withValues, nulls))
    }
  }

  private def spanned(parts: Seq[KeyPartial], nulls: Boolean): Range = {
    val domain = parts.head.domain
    val min = parts.map(_.min).reduce((a, b) => if (domain.compare(a, b) <= 0) a else b)
    val max = parts.map(_.max).reduce((a, b) => if (domain.compare(a, b) >= 0) a else b)
    Range(domain, Some(End(min, inclusive = true)), Some(End(max, inclusive = true)), nulls)
  }

  private def fitting(parts: Seq[KeyPartial], limits: KeyLimits, range: Range): BuiltFilter = {
    val outgrown = parts.map(_.keys).collect { case Outgrown(limit) => limit }
    val built =
      if (outgrown.nonEmpty)
        BuiltFilter(
          range.simplest,
          outgrown.max,
          Some(s"a partition of the build side has more than ${outgrown.max} keys")
        )
      else
        range.domain match {
          case d: LongDomain => longs(d, set(d, parts.map(_.keys)), limits, range)
          case d: ObjectDomain => objects(d, parts.map(_.keys), limits, range)
        }
    // The ends of strings may be long.
    if (FilterCodec.sizeOf(built.filter) <= limits.maxFilterBytes) built
    else BuiltFilter(All, built.values, Some(s"even the range is larger than ${limits.maxFilterBytes} bytes"))
  }

  private def longs(d: LongDomain, keys: LongSet, limits: KeyLimits, range: Range): BuiltFilter = {
    val n = keys.size
    lazy val values = members(LongValues(d, sorted(keys)), range)
    // No gap between the least and the greatest.
    if (keys.greatest - keys.least == n - 1) BuiltFilter(range.simplest, n, None)
    else if (n > limits.maxRows) tooMany(n, limits, range)
    else if (n <= limits.inMaxValues && fits(values, limits)) BuiltFilter(values, n, None)
    else {
      val tooLarge = Option.when(n <= limits.inMaxValues)(s"the values take more than ${limits.maxFilterBytes} bytes")
      if (!hasBitmaps(d)) bloom(d, n, keys.foreach(_), limits, range, tooLarge)
      else if (halves(keys).toLong * fewestPerPart > n)
        bloom(d, n, keys.foreach(_), limits, range, Some("the keys are too far apart for a bitmap"))
      else {
        val bitmap = keys match {
          case b: LongBitmap => b
          case v: LongValues => LongBitmap.of(d, v.sorted)
        }
        if (bitmap.bits.sizeInBytes + overhead <= limits.maxFilterBytes)
          BuiltFilter(members(bitmap, range), n, tooLarge)
        else
          bloom(d, n, keys.foreach(_), limits, range, Some(s"a bitmap takes more than ${limits.maxFilterBytes} bytes"))
      }
    }
  }

  private def sorted(keys: LongSet): Array[Long] = keys match {
    case v: LongValues => v.sorted
    case b: LongBitmap => b.toArray
  }

  /** How many upper halves have keys. */
  private def halves(keys: LongSet): Int = keys match {
    case v: LongValues => LongRoaring.parts(v.sorted)
    case b: LongBitmap => b.bits.parts
  }

  /** The keys of all partitions. Where they lie close to each other in one of them they do so in most, and stay compressed;
    * unless others have keys of which a bitmap takes more than the numbers.
    */
  private def set(d: LongDomain, keys: Seq[Keys]): LongSet = {
    val numbers = keys.collect { case Longs(xs) => xs }
    val near = numbers.forall(xs => LongRoaring.parts(xs).toLong * fewestPerPart <= xs.length)
    if (numbers.size < keys.size && near)
      LongBitmap(
        d,
        LongRoaring.union(keys.collect {
          case Bits(set) => set
          case Longs(xs) if xs.nonEmpty => LongRoaring.of(xs)
        })
      )
    else LongValues(d, numbersOf(keys))
  }

  /** The distinct numbers of all of them, ascending. Objects are none. */
  private[filter] def numbersOf(keys: Seq[Keys]): Array[Long] = union(keys.collect {
    case Longs(xs) => xs
    case Bits(set) =>
      val all = new Array[Long](Math.toIntExact(set.size))
      var n = 0
      set.foreach { x => all(n) = x; n += 1 }
      all
  })

  private def hasBitmaps(d: LongDomain): Boolean = d.dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType => true
    case _ => false
  }

  private def objects(d: ObjectDomain, keys: Seq[Keys], limits: KeyLimits, range: Range): BuiltFilter = {
    val values = keys.collect { case Objects(xs) => xs }
    if (values.size < keys.size) hashed(d, keys, limits, range, None)
    else {
      val distinct = new java.util.TreeSet[AnyRef]((a: AnyRef, b: AnyRef) => d.compare(a, b))
      values.foreach(_.foreach(distinct.add))
      val n = distinct.size
      if (n > limits.maxRows) tooMany(n, limits, range)
      else if (n > limits.inMaxValues) hashed(d, keys, limits, range, None)
      else {
        val f = members(ObjectValues(d, distinct.toArray), range)
        if (fits(f, limits)) BuiltFilter(f, n, None)
        else hashed(d, keys, limits, range, Some(s"the values take more than ${limits.maxFilterBytes} bytes"))
      }
    }
  }

  private def hashed(
      d: ObjectDomain,
      keys: Seq[Keys],
      limits: KeyLimits,
      range: Range,
      why: Option[String]
  ): BuiltFilter = {
    val codes = union(keys.map {
      case Objects(xs) => xs.map(Bloom.code(d, _)).sorted
      case Hashes(xs) => xs
      case Longs(_) | Bits(_) | Outgrown(_) => Array.emptyLongArray
    })
    if (codes.length > limits.maxRows) tooMany(codes.length, limits, range)
    else bloom(d, codes.length.toLong, LongValues.each(codes, _), limits, range, why)
  }

  private def bloom(
      d: KeyDomain,
      n: Long,
      foreach: LongConsumer => Unit,
      limits: KeyLimits,
      range: Range,
      why: Option[String]
  ): BuiltFilter = {
    // Before it is made: its size follows from the number of keys.
    if (Bloom.sizeInBytes(n, limits.bloomFpp) + overhead <= limits.maxFilterBytes) {
      val f = members(Bloom.of(d, n, foreach, limits.bloomFpp, 1), range)
      if (fits(f, limits)) return BuiltFilter(f, n, why)
    }
    BuiltFilter(range.simplest, n, Some(s"a bloom filter takes more than ${limits.maxFilterBytes} bytes"))
  }

  /** What surrounds a bitmap or bloom filter whose keys are longs. */
  private[filter] val overhead = 128

  private def fits(f: ValueFilter, limits: KeyLimits): Boolean = FilterCodec.sizeOf(f) <= limits.maxFilterBytes

  private def tooMany(n: Long, limits: KeyLimits, range: Range): BuiltFilter =
    BuiltFilter(range.simplest, n, Some(s"the build side has more than ${limits.maxRows} keys"))

  /** The distinct numbers of ascending arrays, ascending. */
  private[filter] def union(parts: Seq[Array[Long]]): Array[Long] = parts match {
    case Seq(only) => only
    case _ =>
      // The sort finds the ascending runs and merges them.
      val all = Array.concat(parts: _*)
      java.util.Arrays.sort(all)
      var i, n = 0
      while (i < all.length) {
        if (n == 0 || all(n - 1) != all(i)) {
          all(n) = all(i)
          n += 1
        }
        i += 1
      }
      if (n == all.length) all else java.util.Arrays.copyOf(all, n)
  }
}

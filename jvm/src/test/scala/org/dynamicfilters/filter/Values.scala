package org.dynamicfilters.filter

import java.math.{BigDecimal => JBigDecimal, BigInteger}

import org.scalacheck.Gen

import org.apache.spark.sql.catalyst.types.PhysicalDataType
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * A type with a generator of its Catalyst values. Small values are frequent, so that equal ones and neighbours meet; the
 * extremes of the type occur too.
 */
final case class Values(dataType: DataType, notNull: Gen[Any]) {
  val domain: KeyDomain = KeyDomain.forType(dataType).fold(reason => throw new AssertionError(reason.text), identity)

  /** Spark's order of the Catalyst values. */
  val order: Ordering[Any] = PhysicalDataType.ordering(dataType)

  /** Null is a value in four. */
  val nullable: Gen[Any] = Gen.frequency(3 -> notNull, 1 -> Gen.const(null))

  def keys: Gen[AnyRef] = notNull.map(domain.fromInternal)

  val ends: Gen[Option[End]] =
    Gen.option(for (k <- keys; inclusive <- Gen.oneOf(true, false)) yield End(k, inclusive))

  val nullsPass: Gen[Boolean] = Gen.oneOf(true, false)

  /** As made by hand: possibly crossed ends, possibly everything. */
  val rawRanges: Gen[ValueFilter.Range] =
    for (lo <- ends; hi <- ends; nulls <- nullsPass) yield ValueFilter.Range(domain, lo, hi, nulls)

  /** A few distinct keys, ascending. */
  val someKeys: Gen[Seq[AnyRef]] = Gen.choose(1, 8).flatMap(Gen.listOfN(_, keys)).map(distinct)

  def distinct(keys: Seq[AnyRef]): Seq[AnyRef] =
    keys.sorted((a: AnyRef, b: AnyRef) => domain.compare(a, b)).foldLeft(Vector.empty[AnyRef]) { (all, k) =>
      if (all.nonEmpty && domain.compare(all.last, k) == 0) all else all :+ k
    }

  /** Sets of these ascending keys in each form that the type has. */
  def setsOf(keys: Seq[AnyRef]): Seq[KeySet] = domain match {
    case d: LongDomain =>
      val codes = keys.map(_.asInstanceOf[java.lang.Long].longValue).toArray
      val intervals = LongIntervals.union(d, codes.toSeq.map(c => (c, c)))
      Seq(LongValues(d, codes), LongBitmap.build(d, codes), Bloom.build(d, codes, 0.1), intervals)
    case d: ObjectDomain =>
      Seq(ObjectValues(d, keys.toArray), Bloom.build(d, keys.map(Bloom.code(d, _)).distinct.toArray, 0.1))
  }

  val keySets: Gen[KeySet] = someKeys.flatMap(ks => Gen.oneOf(setsOf(ks)))

  /** As made by hand: with any member as either end, even if it is the same or there is no gap. */
  val rawMembers: Gen[ValueFilter.Members] = for {
    ks <- someKeys
    set <- Gen.oneOf(setsOf(ks))
    i <- Gen.choose(0, ks.size - 1)
    j <- Gen.choose(i, ks.size - 1)
    nulls <- nullsPass
  } yield ValueFilter.Members(
    ValueFilter.Range(domain, Some(End(ks(i), inclusive = true)), Some(End(ks(j), inclusive = true)), nulls),
    set
  )

  val both: Gen[ValueFilter] = for (a <- rawMembers; b <- rawMembers) yield ValueFilter.Both(a, b)

  val filters: Gen[ValueFilter] = Gen.frequency(
    8 -> rawMembers,
    2 -> both,
    6 -> rawRanges,
    4 -> rawRanges.map(r => ValueFilter.range(domain, r.lower, r.upper, r.nulls)),
    2 -> keys.map(k => ValueFilter.range(domain, Some(End(k, true)), Some(End(k, true)), nulls = false)),
    1 -> Gen.const(ValueFilter.NullsOnly(domain)),
    1 -> Gen.const(ValueFilter.All),
    1 -> Gen.const(ValueFilter.Nothing)
  )

  override def toString: String = dataType.catalogString
}

object Values {

  val ints: Values = Values(
    IntegerType,
    Gen.frequency(8 -> Gen.choose(-4, 4), 2 -> anyInt, 1 -> Gen.oneOf(Int.MinValue, Int.MinValue + 1, Int.MaxValue))
  )

  val longs: Values = Values(LongType, anyLong)

  val floats: Values = Values(
    FloatType,
    Gen.frequency(
      8 -> Gen.choose(-3, 3).map(_ / 2f),
      4 -> Gen.oneOf(0f, -0f, Float.NaN, java.lang.Float.intBitsToFloat(0xffc00001), Float.PositiveInfinity),
      2 -> Gen.oneOf(Float.MinPositiveValue, -Float.MinPositiveValue, Float.MaxValue, Float.NegativeInfinity),
      2 -> anyInt.map(java.lang.Float.intBitsToFloat)
    )
  )

  val doubles: Values = Values(
    DoubleType,
    Gen.frequency(
      8 -> Gen.choose(-3, 3).map(_ / 2d),
      4 -> Gen.oneOf(0d, -0d, Double.NaN, java.lang.Double.longBitsToDouble(-1L), Double.PositiveInfinity),
      2 -> Gen.oneOf(Double.MinPositiveValue, -Double.MinPositiveValue, Double.MaxValue, Double.NegativeInfinity),
      2 -> Gen.long.map(java.lang.Double.longBitsToDouble)
    )
  )

  val strings: Values = Values(
    StringType,
    Gen
      .frequency(
        8 -> Gen.choose(0, 3).flatMap(n => Gen.stringOfN(n, Gen.oneOf("ab"))),
        2 -> Gen.asciiPrintableStr,
        // Above and below the surrogates the order of bytes is not Java's order of strings.
        2 -> Gen.oneOf("é", "\uffee", "\ud83d\ude00", "a\u0000", "")
      )
      .map(UTF8String.fromString)
  )

  val binaries: Values = Values(
    BinaryType,
    Gen.choose(0, 3).flatMap(n => Gen.listOfN(n, Gen.oneOf(Seq[Byte](0, 1, 127, -128, -1))).map(_.toArray))
  )

  val booleans: Values = Values(BooleanType, Gen.oneOf(true, false))

  /** Every type that a filter can have. */
  val all: Seq[Values] = Seq(
    booleans,
    Values(ByteType, Gen.oneOf(Gen.choose[Byte](-3, 3), Gen.choose(Byte.MinValue, Byte.MaxValue))),
    Values(ShortType, Gen.oneOf(Gen.choose[Short](-3, 3), Gen.choose(Short.MinValue, Short.MaxValue))),
    ints,
    longs,
    Values(DateType, ints.notNull),
    Values(TimestampType, anyLong),
    Values(TimestampNTZType, anyLong),
    Values(TimeType(6), Gen.oneOf(Gen.choose(0L, 3L), Gen.choose(0L, 86399999999999L))),
    Values(YearMonthIntervalType(), ints.notNull),
    Values(DayTimeIntervalType(), anyLong),
    floats,
    doubles,
    decimals(1, 0),
    decimals(9, 2),
    decimals(10, 0),
    decimals(18, 18),
    decimals(19, 4),
    decimals(38, 10),
    strings,
    binaries
  )

  private def anyInt: Gen[Int] = Gen.choose(Int.MinValue, Int.MaxValue)

  private def anyLong: Gen[Long] = Gen.frequency(
    8 -> Gen.choose(-4L, 4L),
    2 -> Gen.long,
    1 -> Gen.oneOf(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue)
  )

  def decimals(precision: Int, scale: Int): Values = {
    val limit = BigInt(10).pow(precision) - 1
    val unscaled = Gen.frequency(
      6 -> Gen.choose(-4, 4).map(BigInt(_)),
      3 -> Gen.long.map(n => BigInt(n).min(limit).max(-limit)),
      2 -> Gen.oneOf(limit, limit - 1, -limit)
    )
    Values(DecimalType(precision, scale), unscaled.map(n => decimal(n.bigInteger, precision, scale)))
  }

  def decimal(unscaled: BigInteger, precision: Int, scale: Int): Decimal =
    Decimal(new JBigDecimal(unscaled, scale), precision, scale)
}

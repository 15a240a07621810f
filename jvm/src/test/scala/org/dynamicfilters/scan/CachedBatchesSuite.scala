package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, End, KeyDomain, ValueFilter}
import org.dynamicfilters.scan.sources.CachedBatches
import org.scalatest.funsuite.AnyFunSuite

/** What is made of the statistics that Spark keeps with cached batches: lower, upper, nulls, rows, bytes of each column. */
class CachedBatchesSuite extends AnyFunSuite {
  private def domain(t: DataType): KeyDomain = KeyDomain.forType(t).fold(why => fail(why.text), identity)
  private def stats(lower: Any, upper: Any, nulls: Int, rows: Int): InternalRow =
    // The second column is the one that is asked for.
    InternalRow(7, 9, 0, rows, 40L, lower, upper, nulls, rows, 80L)
  private def bounds(t: DataType, s: InternalRow): ColumnBounds =
    CachedBatches.boundsOf(s, 1, domain(t), ValueFilter.Nothing)
  private def couldPass(f: ValueFilter, t: DataType, s: InternalRow): Boolean =
    f.couldPass(CachedBatches.boundsOf(s, 1, domain(t), f))
  private def atLeast(t: DataType, value: Any, nulls: Boolean = false): ValueFilter =
    ValueFilter.range(domain(t), Some(End(domain(t).fromInternal(value), inclusive = true)), None, nulls)
  private def atMost(t: DataType, value: Any, nulls: Boolean = false): ValueFilter =
    ValueFilter.range(domain(t), None, Some(End(domain(t).fromInternal(value), inclusive = true)), nulls)

  test("bounds of each kind of type") {
    val cases = Seq[(DataType, Any, Any)](
      (BooleanType, false, true),
      (ByteType, 1.toByte, 5.toByte),
      (ShortType, 1.toShort, 5.toShort),
      (IntegerType, 1, 5),
      (LongType, 1L, 5L),
      (DateType, 1, 5),
      (TimestampType, 1L, 5L),
      (TimestampNTZType, 1L, 5L),
      (DecimalType(7, 2), Decimal(1L, 7, 2), Decimal(5L, 7, 2)),
      (DecimalType(18, 4), Decimal(1L, 18, 4), Decimal(5L, 18, 4)),
      (DecimalType(30, 6), Decimal(BigDecimal("1.000000"), 30, 6), Decimal(BigDecimal("5.000000"), 30, 6)),
      (StringType, UTF8String.fromString("a"), UTF8String.fromString("é")),
      (FloatType, 1f, 5f),
      (DoubleType, 1d, 5d)
    )
    for ((t, lower, upper) <- cases) {
      val d = domain(t)
      val found = bounds(t, stats(lower, upper, 0, 10))
      assert(
        found === ColumnBounds(d.fromInternal(lower), d.fromInternal(upper), mayHaveNulls = false, mayHaveValues = true)
      )
      assert(couldPass(atLeast(t, upper), t, stats(lower, upper, 0, 10)), t)
      assert(couldPass(atMost(t, lower), t, stats(lower, upper, 0, 10)), t)
      assert(!couldPass(atMost(t, lower), t, stats(upper, upper, 0, 10)), t)
    }
  }

  test("nulls pass where the filter lets them, and only then") {
    assert(!couldPass(atMost(IntegerType, 3), IntegerType, stats(5, 9, 4, 10)))
    assert(couldPass(atMost(IntegerType, 3, nulls = true), IntegerType, stats(5, 9, 4, 10)))
    assert(!couldPass(atMost(IntegerType, 3, nulls = true), IntegerType, stats(5, 9, 0, 10)))
  }

  test("a batch of nulls has bounds that mean nothing") {
    // As they are before the first value.
    val nothing = stats(Int.MaxValue, Int.MinValue, 10, 10)
    assert(bounds(IntegerType, nothing) === ColumnBounds.onlyNulls)
    assert(!couldPass(atMost(IntegerType, 3), IntegerType, nothing))
    assert(couldPass(atMost(IntegerType, 3, nulls = true), IntegerType, nothing))
    assert(bounds(StringType, stats(null, null, 10, 10)) === ColumnBounds.onlyNulls)
  }

  test("NaN is not within the bounds") {
    val some = stats(1d, 5d, 0, 10)
    assert(couldPass(atLeast(DoubleType, 100d), DoubleType, some), "NaN is above 100")
    assert(couldPass(atLeast(DoubleType, Double.NaN), DoubleType, some))
    assert(!couldPass(atMost(DoubleType, 0d), DoubleType, some))
    // NaN only, with and without nulls: the bounds are those before the first value.
    for (nulls <- Seq(0, 4)) {
      val none = stats(Double.MaxValue, Double.MinValue, nulls, 10)
      assert(couldPass(atLeast(DoubleType, 100d), DoubleType, none))
      assert(couldPass(atLeast(FloatType, 100f), FloatType, stats(Float.MaxValue, Float.MinValue, nulls, 10)))
    }
  }

  test("infinities and both zeros") {
    assert(
      couldPass(
        atLeast(DoubleType, Double.PositiveInfinity),
        DoubleType,
        stats(Double.MaxValue, Double.PositiveInfinity, 0, 3)
      )
    )
    assert(
      couldPass(
        atMost(DoubleType, Double.NegativeInfinity),
        DoubleType,
        stats(Double.NegativeInfinity, Double.MinValue, 0, 3)
      )
    )
    assert(couldPass(atMost(DoubleType, -0.0), DoubleType, stats(0.0, 3d, 0, 3)))
    assert(couldPass(atMost(DoubleType, 0.0), DoubleType, stats(-0.0, 3d, 0, 3)))
  }

  test("without bounds everything may be there") {
    assert(couldPass(atMost(IntegerType, 3), IntegerType, stats(null, null, 0, 10)))
    assert(bounds(BinaryType, stats(null, null, 1, 10)) === ColumnBounds.unknown)
  }
}

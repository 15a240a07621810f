package org.dynamicfilters.tables

import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}
import org.scalatest.funsuite.AnyFunSuite

class StatisticsTextSuite extends AnyFunSuite {
  private def domain(t: DataType) = KeyDomain.forType(t).toOption.get
  private def text(t: DataType, metadata: Metadata = Metadata.empty) =
    StatisticsText.forColumn(StructField("c", t, nullable = true, metadata), domain(t))

  private def bounds(
      t: DataType,
      min: String,
      max: String,
      nulls: Option[Long] = Some(0),
      rows: Option[Long] = Some(10)
  ): ColumnBounds = text(t).get.bounds(Option(min), Option(max), nulls, rows)

  test("numbers and dates are exact") {
    assert(bounds(LongType, "-5", "9000000000") == ColumnBounds(Long.box(-5), Long.box(9000000000L), false, true))
    assert(bounds(IntegerType, "1", "2") == ColumnBounds(Long.box(1), Long.box(2), false, true))
    assert(bounds(DateType, "1969-12-31", "2020-01-01") == ColumnBounds(Long.box(-1), Long.box(18262), false, true))
    assert(bounds(DecimalType(10, 2), "-1.50", "3") == ColumnBounds(Long.box(-150), Long.box(300), false, true))
  }

  test("dates before the Gregorian calendar, and those BC, which may have no era, say nothing") {
    val nothing = ColumnBounds(null, null, false, true)
    Seq(("0044-03-15", "2020-01-01"), ("3000-01-01", "2000-01-01"), ("3000-01-01", "0044-01-01")).foreach {
      case (a, b) =>
        assert(bounds(DateType, a, b) == nothing)
        assert(bounds(TimestampType, s"${a}T00:00:00Z", s"${b}T00:00:00Z") == nothing)
    }
    assert(bounds(DateType, "1582-10-15", "1582-10-15").min == Long.box(-141427))
    assert(bounds(IntegerType, "5", "-5").min == Long.box(5))
  }

  test("a text that is no value of the type says nothing") {
    assert(bounds(IntegerType, "x", "99999999999") == ColumnBounds(null, null, false, true))
    assert(bounds(LongType, null, null) == ColumnBounds(null, null, false, true))
    assert(bounds(DateType, "tomorrow", "") == ColumnBounds(null, null, false, true))
  }

  test("timestamps are cut to milliseconds, and their zones to minutes") {
    val b = bounds(TimestampType, "1999-12-31T23:59:59.999Z", "2000-01-01T01:00:00.001+01:00")
    val start = 946684800000000L
    assert(b == ColumnBounds(Long.box(start - 60001000), Long.box(start + 60001000), false, true))
    val local = bounds(TimestampNTZType, "1970-01-01T00:00:00.005", "1970-01-01T00:00:00.005")
    assert(local == ColumnBounds(Long.box(4000), Long.box(6000), false, true))
    assert(bounds(TimestampType, "1970-01-01T00:00:00", "1970-01-01 00:00:00") == ColumnBounds(null, null, false, true))
  }

  test("offsets of zones that have seconds are cut to minutes") {
    // Los Angeles, 7:52:58 behind; Amsterdam, 19:32 ahead.
    val b = bounds(TimestampType, "1900-01-01T00:19:00.000+00:19", "1900-01-01T00:00:00.000-07:52")
    val (real, last) =
      (java.time.Instant.parse("1899-12-31T23:59:28Z"), java.time.Instant.parse("1900-01-01T07:52:58Z"))
    assert(b.min.asInstanceOf[Long] <= real.getEpochSecond * 1000000)
    assert(b.max.asInstanceOf[Long] >= last.getEpochSecond * 1000000)
    val local = bounds(TimestampNTZType, "1900-01-01T00:00:00.005", "1900-01-01T00:00:00.005")
    assert(local.max.asInstanceOf[Long] - local.min.asInstanceOf[Long] == 2000)
  }

  test("numbers of nulls count only where they are none or all") {
    assert(bounds(LongType, null, null, Some(10), Some(10)) == ColumnBounds.onlyNulls)
    assert(bounds(LongType, "1", "2", Some(3)).mayHaveNulls)
    assert(bounds(LongType, "1", "2", None).mayHaveNulls)
    assert(bounds(LongType, "1", "2", None, None).mayHaveValues)
  }

  test("columns whose type was widened, and types whose text is not known") {
    val widened = new MetadataBuilder().putString("delta.typeChanges", "[]").build()
    assert(text(LongType, widened).isEmpty)
    // Cut strings, NaN, and digits that a double has not kept.
    Seq(BinaryType, BooleanType, StringType, FloatType, DoubleType, DecimalType(16, 2)).foreach(t =>
      assert(text(t).isEmpty, t)
    )
  }
}

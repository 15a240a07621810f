package org.dynamicfilters.scan

import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{End, KeyDomain, UserForms, ValueFilter}
import org.dynamicfilters.scan.sources.{SplitBounds, V2Predicates}
import org.scalatest.funsuite.AnyFunSuite

/** What sources are told: never less than what Spark's order of values lets pass. */
class V2PredicatesSuite extends AnyFunSuite {
  private def domain(t: DataType) = KeyDomain.forType(t).toOption.get
  private object Unknown extends Scan {
    override def readSchema(): StructType = new StructType
  }
  private def inSparksOrder(t: DataType) = SplitBounds.inSparksOrder(Unknown, StructField("x", t))
  private def told(f: ValueFilter, inSparksOrder: Boolean): Option[String] =
    V2Predicates.of("x", f, inSparksOrder, mostValues = 10000).map(_.describe)
  private def in(t: DataType, values: Any*): Option[String] = {
    val d = domain(t)
    told(UserForms.values(d, values.iterator.map(d.fromInternal(_)), nulls = false, 20000), inSparksOrder(t))
  }
  private def range(t: DataType, lower: Option[Any], upper: Option[Any]): Option[String] = {
    val d = domain(t)
    def end(v: Option[Any]) = v.map(k => End(d.fromInternal(k), inclusive = true))
    told(ValueFilter.range(d, end(lower), end(upper), nulls = false), inSparksOrder(t))
  }

  test("no lower end where NaN passes, which Spark has as the greatest value and sources may not") {
    assert(in(DoubleType, 1.0, Double.NaN).isEmpty && in(FloatType, 1.0f, Float.NaN).isEmpty)
    assert(range(DoubleType, Some(1.0), None).isEmpty && range(DoubleType, Some(1.0), Some(Double.NaN)).isEmpty)
    // The others have both ends, and integers one.
    assert(range(DoubleType, Some(1.0), Some(5.0)).exists(p => p.contains(">=") && p.contains("<=")))
    assert(range(DoubleType, None, Some(5.0)).exists(_.contains("<=")))
    assert(range(LongType, Some(1L), None).exists(_.contains(">=")))
  }

  test("both zeros, which Spark has as equal and sources may not") {
    assert(in(DoubleType, 0.0, 2.0).exists(p => p.contains("-0.0") && p.contains(", 0.0")))
    assert(range(DoubleType, Some(0.0), Some(2.0)).exists(_.contains("-0.0")))
  }

  // Iceberg's UUIDs are shown as STRING, databases ignore case: such a source loses rows by a range.
  test("no range of text and bytes where the source's order is not known to be Spark's, but each value") {
    def range(t: DataType, upper: Any) = {
      val d = domain(t)
      ValueFilter.range(d, None, Some(End(d.fromInternal(upper), inclusive = true)), nulls = false)
    }
    val (text, bytes) = (range(StringType, UTF8String.fromString("b")), range(BinaryType, Array[Byte](1)))
    assert(told(text, inSparksOrder(StringType)).isEmpty && told(bytes, inSparksOrder(BinaryType)).isEmpty)
    assert(told(text, inSparksOrder = true).exists(_.contains("<= 'b'")))
    assert(in(StringType, UTF8String.fromString("a"), UTF8String.fromString("b")).exists(_.contains("IN ('a', 'b')")))
    assert(in(StringType, UTF8String.fromString("a")).exists(_.contains("IN ('a')")))
    val many = (0 to 10000).map(i => UTF8String.fromString(s"k$i"))
    assert(in(StringType, many: _*).isEmpty)
    // What is left of two.
    assert(told(ValueFilter.Both(text, range(StringType, UTF8String.fromString("c"))), inSparksOrder = false).isEmpty)
    Seq(ByteType -> 1.toByte, LongType -> 1L, DateType -> 1, TimestampType -> 1L, DoubleType -> 1.0).foreach {
      case (t, v) =>
        assert(told(range(t, v), inSparksOrder(t)).exists(_.contains("<=")), t)
    }
    val decimal = DecimalType(30, 0)
    assert(told(range(decimal, Decimal(BigDecimal(1), 30, 0)), inSparksOrder(decimal)).exists(_.contains("<=")))
  }
}

package org.dynamicfilters.filter

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

class KeyDomainSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def domain(dt: DataType): KeyDomain =
    KeyDomain.forType(dt).fold(reason => fail(s"$dt has no domain: $reason"), identity)

  private def compare(dt: DataType, a: Any, b: Any): Int = {
    val d = domain(dt)
    d.compare(d.fromInternal(a), d.fromInternal(b)).sign
  }

  Values.all.foreach { t =>
    test(s"keys of $t are ordered as Spark orders the values") {
      forAll(t.notNull, t.notNull) { (a, b) =>
        assert(t.domain.compare(t.domain.fromInternal(a), t.domain.fromInternal(b)).sign == t.order.compare(a, b).sign)
      }
    }

    test(s"a key of $t is turned back into an equal value") {
      forAll(t.nullable) { v =>
        val back = t.domain.toInternal(t.domain.fromInternal(v))
        if (v == null) assert(back == null) else assert(t.order.compare(back, v) == 0)
      }
    }

    test(s"a row gives the key that its value of $t gives") {
      val toUnsafe = UnsafeProjection.create(Array[DataType](IntegerType, t.dataType))
      forAll(t.nullable) { v =>
        val row = InternalRow(7, v)
        val expected = t.domain.fromInternal(v)
        assert(t.domain.fromRow(row, 1) == expected)
        assert(t.domain.fromRow(toUnsafe(row), 1) == expected)
      }
    }

    test(s"every value of $t has a key that the domain accepts") {
      forAll(t.notNull)(v => assert(t.domain.isKey(t.domain.fromInternal(v))))
    }

    test(s"a key of $t has a text of one line") {
      forAll(t.nullable) { v =>
        val text = t.domain.render(t.domain.fromInternal(v))
        assert(text.nonEmpty && !text.exists(_.isControl))
      }
    }

    test(s"the domain of $t survives Java serialization") {
      val copy = JavaCopy(t.domain)
      assert(copy == t.domain && copy.hashCode == t.domain.hashCode)
    }
  }

  test("NaN is the greatest double and all NaNs are equal") {
    assert(compare(DoubleType, Double.NaN, Double.PositiveInfinity) > 0)
    assert(compare(DoubleType, Double.NaN, java.lang.Double.longBitsToDouble(-1L)) == 0)
    assert(compare(FloatType, Float.NaN, Float.PositiveInfinity) > 0)
    assert(compare(FloatType, Float.NaN, java.lang.Float.intBitsToFloat(-1)) == 0)
  }

  test("negative zero equals zero") {
    assert(compare(DoubleType, -0.0d, 0.0d) == 0)
    assert(compare(FloatType, -0.0f, 0.0f) == 0)
    assert(compare(DoubleType, -0.0d, -java.lang.Double.MIN_VALUE) > 0)
  }

  test("bytes are compared as unsigned") {
    assert(compare(BinaryType, Array[Byte](-1), Array[Byte](1)) > 0)
    assert(compare(StringType, UTF8String.fromString("é"), UTF8String.fromString("z")) > 0)
  }

  test("a key does not change with the memory of the row it came from") {
    val bytes = "abc".getBytes("UTF-8")
    val key = domain(StringType).fromRow(InternalRow(UTF8String.fromBytes(bytes)), 0)
    bytes(0) = 'z'
    assert(key == UTF8String.fromString("abc"))

    val binary = Array[Byte](1, 2)
    val binaryKey = domain(BinaryType).fromRow(InternalRow(binary), 0)
    binary(0) = 9
    assert(binaryKey == UTF8String.fromBytes(Array[Byte](1, 2)))

    val number = Decimal(BigDecimal("12345678901234567890.5"), 38, 10)
    val numberKey = domain(DecimalType(38, 10)).fromRow(InternalRow(number), 0)
    number.set(BigDecimal(1), 38, 10)
    assert(numberKey == Decimal(BigDecimal("12345678901234567890.5"), 38, 10))
  }

  test("a decimal of another scale is brought to that of the type") {
    assert(domain(DecimalType(9, 2)).fromInternal(Decimal(BigDecimal("1.5"))) == Long.box(150))
    val wide = domain(DecimalType(38, 10)).fromInternal(Decimal(BigDecimal("1.5")))
    assert(wide.asInstanceOf[Decimal].scale == 10)
    intercept[IllegalArgumentException](domain(DecimalType(9, 2)).fromInternal(Decimal(BigDecimal("1.555"))))
    intercept[IllegalArgumentException](domain(DecimalType(38, 2)).fromInternal(Decimal(BigDecimal("1.555"))))
  }

  test("a value of another type is refused") {
    intercept[IllegalArgumentException](domain(IntegerType).fromInternal(5L))
    intercept[IllegalArgumentException](domain(IntegerType).fromInternal("5"))
    intercept[IllegalArgumentException](domain(StringType).fromInternal("5"))
    intercept[IllegalArgumentException](domain(DoubleType).fromInternal(5))
  }

  test("a number outside of the type is no key") {
    assert(!domain(ByteType).isKey(Long.box(128)))
    assert(!domain(BooleanType).isKey(Long.box(2)))
    assert(!domain(DoubleType).isKey(Long.box(Long.MaxValue)))
    assert(!domain(DoubleType).isKey(Long.box(-1)), "the code of negative zero")
    assert(!domain(DecimalType(20, 2)).isKey(Decimal(BigDecimal("1.555"), 20, 3)))
    assert(!domain(DecimalType(20, 2)).isKey(Decimal(BigDecimal(10).pow(18), 38, 0)))
    assert(domain(DecimalType(20, 2)).isKey(Decimal(BigDecimal(10).pow(18) - 1, 38, 0)))
    assert(!domain(StringType).isKey("abc"))
    // Zero has no digit before the point.
    assert(domain(DecimalType(38, 38)).isKey(Decimal(BigDecimal(0), 38, 38)))
    assert(domain(DecimalType(38, 38)).isKey(Decimal(BigDecimal("0E-38"), 38, 38)))
    assert(!domain(DecimalType(38, 38)).isKey(Decimal(BigDecimal(1), 38, 0)))
  }

  test("a string that is not compared by its bytes has no domain, and the reason says why") {
    assert(KeyDomain.forType(StringType("UTF8_BINARY")).isRight)
    Seq("UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY_RTRIM").foreach { c =>
      assert(KeyDomain.forType(StringType(c)).left.exists(_.text.contains("UTF8_BINARY compare")), c)
    }
    assert(KeyDomain.forType(CharType(3)).left.exists(_.text.contains("padded")))
    assert(KeyDomain.forType(VarcharType(3)).left.exists(_.text.contains("padded")))
  }

  test("types without an order have no domain, and the reason names the type") {
    Seq(
      NullType,
      CalendarIntervalType,
      VariantType,
      ArrayType(IntegerType),
      MapType(IntegerType, IntegerType),
      new StructType().add("a", IntegerType)
    ).foreach(dt => assert(KeyDomain.forType(dt).left.exists(_.text.contains(dt.catalogString)), dt))
  }

  test("domains of the same type are equal and of different types are not") {
    assert(domain(DecimalType(9, 2)) == domain(DecimalType(9, 2)))
    assert(domain(DecimalType(9, 2)) != domain(DecimalType(9, 3)))
    assert(domain(LongType) != domain(TimestampType))
    assert(domain(StringType) == domain(StringType("UTF8_BINARY")))
  }

  test("values are shown as in a SQL text") {
    def text(dt: DataType, value: Any): String = domain(dt).render(domain(dt).fromInternal(value))
    assert(text(IntegerType, 50) == "50")
    assert(text(BooleanType, true) == "true")
    assert(text(DoubleType, 1.5) == "1.5")
    assert(text(DoubleType, Double.NaN) == "double('NaN')")
    assert(text(FloatType, Float.NegativeInfinity) == "float('-Infinity')")
    assert(text(DecimalType(4, 2), Decimal("1.50")) == "1.50")
    assert(text(DecimalType(38, 2), Decimal(BigDecimal("1E+20"), 38, 2)) == "100000000000000000000.00")
    assert(text(DateType, 18262) == "DATE'2020-01-01'")
    assert(text(DateType, -719893) == "DATE'-0001-01-01'")
    assert(text(TimestampType, 1577836800000000L) == "TIMESTAMP'2020-01-01 00:00:00Z'")
    assert(text(TimestampType, -1L) == "TIMESTAMP'1969-12-31 23:59:59.999999Z'")
    assert(text(TimestampNTZType, 1577836800500000L) == "TIMESTAMP_NTZ'2020-01-01 00:00:00.5'")
    assert(text(TimeType(6), 3600L * 1000000000) == "TIME'01:00:00'")
    assert(text(YearMonthIntervalType(), -14) == "INTERVAL '-1-2' YEAR TO MONTH")
    assert(text(DayTimeIntervalType(), -90061000001L) == "INTERVAL '-1 01:01:01.000001' DAY TO SECOND")
    assert(text(BinaryType, Array[Byte](10, -1)) == "X'0AFF'")
    assert(text(StringType, UTF8String.fromString("it's\n\\")) == "'it\\'s\\n\\\\'")
    assert(text(StringType, null) == "NULL")
  }

  test("long texts are cut after 40 characters, never inside one") {
    val smileys = "\ud83d\ude00" * 41
    val d = domain(StringType)
    assert(d.render(UTF8String.fromString("x" * 40)) == s"'${"x" * 40}'")
    assert(d.render(UTF8String.fromString("x" * 41)) == s"'${"x" * 40}…'")
    assert(d.render(UTF8String.fromString(smileys)) == s"'${"\ud83d\ude00" * 40}…'")
    assert(domain(BinaryType).render(new Array[Byte](21)) == s"X'${"00" * 20}…'")
  }

  test("the times shown do not depend on the default time zone") {
    val before = java.util.TimeZone.getDefault
    try {
      java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("Asia/Kolkata"))
      assert(domain(TimestampType).render(Long.box(0)) == "TIMESTAMP'1970-01-01 00:00:00Z'")
    } finally java.util.TimeZone.setDefault(before)
  }
}

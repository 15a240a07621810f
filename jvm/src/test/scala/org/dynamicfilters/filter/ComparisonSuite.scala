package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.{Expression, _}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

/** Filters of comparisons pass what Spark's own comparisons say. */
class ComparisonSuite extends AnyFunSuite {
  private val operators: Seq[(Comparison.Value, (Expression, Expression) => Expression)] = Seq(
    Comparison.Equal -> EqualTo.apply,
    Comparison.NullSafeEqual -> EqualNullSafe.apply,
    Comparison.Less -> LessThan.apply,
    Comparison.LessOrEqual -> LessThanOrEqual.apply,
    Comparison.Greater -> GreaterThan.apply,
    Comparison.GreaterOrEqual -> GreaterThanOrEqual.apply
  )

  private val values: Seq[(DataType, Seq[Any])] = Seq(
    IntegerType -> Seq(Int.MinValue, -1, 0, 7, Int.MaxValue),
    LongType -> Seq(Long.MinValue, -1L, 0L, 7L, Long.MaxValue),
    DoubleType -> Seq(Double.NegativeInfinity, -1.5, -0.0, 0.0, Double.MaxValue, Double.PositiveInfinity, Double.NaN),
    FloatType -> Seq(Float.NegativeInfinity, -1.5f, -0.0f, 0.0f, Float.PositiveInfinity, Float.NaN),
    BooleanType -> Seq(false, true),
    DecimalType(7, 2) -> Seq("-99999.99", "0", "0.01", "99999.99").map(s => Decimal(BigDecimal(s), 7, 2)),
    DecimalType(30, 2) -> Seq("-99999.99", "0", "0.01", "99999.99").map(s => Decimal(BigDecimal(s), 30, 2)),
    StringType -> Seq("", "a", "aa", "b", "\u00e4", "\ud83d\ude00").map(UTF8String.fromString),
    BinaryType -> Seq(Array[Byte](), Array[Byte](0), Array[Byte](1, -1), Array[Byte](-1))
  )

  for ((dataType, some) <- values; (operator, of) <- operators) test(s"$operator of ${dataType.sql}") {
    val domain = KeyDomain.forType(dataType).toOption.get
    for (value <- some :+ null) {
      val filter = Comparison.filter(operator, domain, value)
      for (x <- some :+ null) {
        val isTrue = of(Literal(x, dataType), Literal(value, dataType)).eval() == true
        assert(filter.passes(domain.fromInternal(x)) == isTrue, s"$x $operator $value: $filter")
      }
    }
  }

  test("no value passes a comparison with NULL") {
    val domain = KeyDomain.forType(LongType).toOption.get
    operators.map(_._1).filter(_ != Comparison.NullSafeEqual).foreach { o =>
      assert(Comparison.filter(o, domain, null) == ValueFilter.Nothing)
    }
    assert(Comparison.filter(Comparison.NullSafeEqual, domain, null) == ValueFilter.NullsOnly(domain))
  }
}

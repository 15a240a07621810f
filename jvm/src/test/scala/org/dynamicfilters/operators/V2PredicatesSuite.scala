package org.dynamicfilters.operators

import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{End, KeyDomain, UserForms, ValueFilter}
import org.scalatest.funsuite.AnyFunSuite

/** What sources are told: never less than what Spark's order of values lets pass. */
class V2PredicatesSuite extends AnyFunSuite {
  private def domain(t: DataType) = KeyDomain.of(t).toOption.get
  private def told(f: ValueFilter): Option[String] = V2Predicates.of("x", f).map(_.describe)
  private def in(t: DataType, values: Any*): Option[String] = {
    val d = domain(t)
    told(UserForms.values(d, values.iterator.map(d.fromInternal(_)), nulls = false, 100))
  }
  private def range(t: DataType, lower: Option[Any], upper: Option[Any]): Option[String] = {
    val d = domain(t)
    def end(v: Option[Any]) = v.map(k => End(d.fromInternal(k), inclusive = true))
    told(ValueFilter.range(d, end(lower), end(upper), nulls = false))
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
}

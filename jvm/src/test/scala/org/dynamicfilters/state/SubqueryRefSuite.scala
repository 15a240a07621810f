package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{Comparison, KeyDomain, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.scalatest.funsuite.AnyFunSuite

class SubqueryRefSuite extends AnyFunSuite {
  import Comparison._
  private val domain = KeyDomain.forType(LongType).toOption.get
  private def ref(operators: Comparison.Value*)(values: Long*) =
    SubqueryRef(domain, operators, values.map(Literal(_)))

  test("two are equal if they compare with equal values by the same operators") {
    assert(ref(Less)(3) == ref(Less)(3))
    assert(ref(Less)(3).hashCode == ref(Less)(3).hashCode)
    assert(ref(Less)(3).id != ref(Less)(3).id)
    assert(ref(Less)(3) != ref(LessOrEqual)(3))
    assert(ref(Less)(3) != ref(Less)(4))
    assert(ref(Less)(3) != ref(Less, Greater)(3, 0))
  }

  test("several comparisons are one range") {
    val filter = ref(GreaterOrEqual, Less)(3, 9).filter(Seq(3L, 9L))
    assert(filter.expression("k") == "3 <= k < 9")
    assert(ref(GreaterOrEqual, Less)(3, 9).filter(Seq(3L, null)) == ValueFilter.Nothing)
    assert(ref(GreaterOrEqual, Less)(9, 3).filter(Seq(9L, 3L)) == ValueFilter.Nothing)
  }

  test("the first scan that starts decides") {
    val r = ref(Equal)(3)
    assert(r.describe("k") == s"$r [k: not known yet]")
    assert(r.state.named.isEmpty)
    r.state.started(Right(r.filter(Seq(3L))))
    r.state.started(Left(Reasons.SubqueryValue))
    assert(r.describe("k") == s"$r [k: k = 3]")
    assert(r.state.named.map(_.name).contains(FilterName(r.id, 1)))
    r.state.showValues(false)
    assert(r.describe("k") == s"$r [k: hidden]")
  }

  test("without a value every row passes") {
    val r = ref(Equal)(3)
    r.state.started(Left(Reasons.SubqueryFailed(new ArithmeticException)))
    assert(r.describe("k") == s"$r [k: true]")
    assert(r.state.filter.isEmpty)
  }
}

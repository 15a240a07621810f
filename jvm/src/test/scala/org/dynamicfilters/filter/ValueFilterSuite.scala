package org.dynamicfilters.filter

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

class ValueFilterSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ValueFilter._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300, sizeRange = 20)

  private val int = KeyDomain.forType(IntegerType).toOption.get
  private val double = KeyDomain.forType(DoubleType).toOption.get
  private val string = KeyDomain.forType(StringType).toOption.get

  private def in(k: Int): Option[End] = Some(End(Long.box(k.toLong), inclusive = true))
  private def ex(k: Int): Option[End] = Some(End(Long.box(k.toLong), inclusive = false))
  private def str(s: String, inclusive: Boolean): Option[End] = Some(End(UTF8String.fromString(s), inclusive))
  private def dbl(x: Double, inclusive: Boolean): Option[End] = Some(End(double.fromInternal(x), inclusive))

  /** What a range means, said with Spark's order of the Catalyst values. */
  private def inside(t: Values, r: Range, v: Any): Boolean =
    if (v == null) r.nulls
    else {
      def order(e: End): Int = t.order.compare(v, t.domain.toInternal(e.key))
      r.lower.forall(e => order(e) > 0 || (order(e) == 0 && e.inclusive)) &&
      r.upper.forall(e => order(e) < 0 || (order(e) == 0 && e.inclusive))
    }

  private def boundsOf(t: Values, keys: Seq[AnyRef]): ColumnBounds =
    keys.map(ColumnBounds.exact).reduceOption(ColumnBounds.merge(_, _)(t.domain)).getOrElse {
      ColumnBounds(null, null, mayHaveNulls = false, mayHaveValues = false)
    }

  /** The same with some of it forgotten, as statistics do. */
  private def loosened(b: ColumnBounds): Gen[ColumnBounds] =
    for (min <- Gen.oneOf(true, false); max <- Gen.oneOf(true, false); n <- Gen.oneOf(true, false))
      yield ColumnBounds(
        if (min) b.min else null,
        if (max) b.max else null,
        b.mayHaveNulls || n,
        mayHaveValues = b.mayHaveValues || n
      )

  Values.all.foreach { t =>
    test(s"a range of $t passes what lies between its ends in Spark's order") {
      forAll(t.rawRanges, t.nullable) { (r, v) =>
        val expected = inside(t, r, v)
        assert(r.passes(t.domain.fromInternal(v)) == expected)
        assert(r.passesRow(InternalRow(v), 0) == expected)
        val simplest = range(t.domain, r.lower, r.upper, r.nulls)
        assert(simplest.passes(t.domain.fromInternal(v)) == expected)
        assert(simplest.passesRow(InternalRow(v), 0) == expected)
      }
    }

    test(s"bounds of $t rule out and accept only what they prove") {
      forAll(t.filters, Gen.listOf(t.nullable)) { (f, values) =>
        val keys = values.map(t.domain.fromInternal)
        val exact = boundsOf(t, keys)
        forAll(loosened(exact), minSuccessful(3)) { loose =>
          Seq(exact, loose).foreach { b =>
            if (!f.couldPass(b)) assert(!keys.exists(f.passes), s"$b was ruled out")
            if (f.allPass(b)) assert(keys.forall(f.passes), s"$b was accepted")
          }
        }
        assert(f.couldPassAny(keys.iterator.filter(_ != null), keys.contains(null)) == keys.exists(f.passes))
      }
    }

    test(s"bounds of a single value of $t decide exactly") {
      forAll(t.filters, t.nullable) { (f, v) =>
        val k = t.domain.fromInternal(v)
        assert(f.couldPass(ColumnBounds.exact(k)) == f.passes(k))
        assert(f.allPass(ColumnBounds.exact(k)) == f.passes(k))
      }
    }

    test(s"a filter of $t implies another only if all that passes it passes the other") {
      forAll(t.filters, t.filters, Gen.listOf(t.nullable)) { (a, b, values) =>
        if (a.implies(b)) values.map(t.domain.fromInternal).foreach(k => assert(!a.passes(k) || b.passes(k)))
        assert(a.implies(a) && a.implies(All) && Nothing.implies(a))
      }
    }

    test(s"two filters of $t together pass what passes both, and imply each") {
      forAll(t.filters, t.filters, Gen.listOf(t.nullable)) { (a, b, values) =>
        val both = a.and(b)
        values.map(t.domain.fromInternal).foreach(k => assert(both.passes(k) == (a.passes(k) && b.passes(k))))
        assert(both.implies(a) && both.implies(b))
      }
    }

    test(s"the points of a filter of $t are all that passes it") {
      forAll(t.filters, t.nullable) { (f, v) =>
        val k = t.domain.fromInternal(v)
        f.points.foreach(ps => assert(f.passes(k) == (k != null && ps.exists(t.domain.compare(_, k) == 0))))
      }
    }

    test(s"filters of $t survive Java serialization") {
      forAll(t.filters) { f =>
        val copy = JavaCopy(f)
        assert(copy == f && copy.hashCode == f.hashCode)
      }
    }
  }

  test("a filter without information passes everything and one that is empty nothing") {
    assert(All.passes(null) && All.couldPass(ColumnBounds.unknown) && All.allPass(ColumnBounds.unknown))
    assert(!Nothing.passes(null) && !Nothing.couldPass(ColumnBounds.unknown) && !Nothing.allPass(ColumnBounds.unknown))
  }

  test("ends that exclude everything make the simplest filter") {
    assert(range(int, in(5), in(4), nulls = false) == Nothing)
    assert(range(int, ex(5), ex(6), nulls = false) == Nothing)
    assert(range(int, in(5), ex(5), nulls = true) == NullsOnly(int))
    assert(range(int, ex(Int.MaxValue), None, nulls = false) == Nothing)
    assert(range(int, None, ex(Int.MinValue), nulls = false) == Nothing)
    assert(range(string, str("b", true), str("a", true), nulls = false) == Nothing)
    assert(range(string, None, str("", false), nulls = false) == Nothing)
    assert(range(double, dbl(Double.NaN, false), None, nulls = false) == Nothing)
    assert(range(double, dbl(-0.0, false), dbl(0.0, true), nulls = false) == Nothing)
  }

  test("the ends of a long do not overflow") {
    val long = KeyDomain.forType(LongType).toOption.get
    def end(k: Long, inclusive: Boolean) = Some(End(Long.box(k), inclusive))
    assert(range(long, end(Long.MaxValue, false), None, nulls = false) == Nothing)
    assert(range(long, None, end(Long.MinValue, false), nulls = false) == Nothing)
    val most = range(long, end(Long.MinValue, false), end(Long.MaxValue, false), nulls = false)
    assert(!most.passes(Long.box(Long.MinValue)) && !most.passes(Long.box(Long.MaxValue)))
    assert(most.passes(Long.box(Long.MinValue + 1)) && most.passes(Long.box(Long.MaxValue - 1)))
  }

  test("ends that exclude no value pass everything if null passes too") {
    assert(range(int, None, None, nulls = true) == All)
    assert(range(int, in(Int.MinValue), in(Int.MaxValue), nulls = true) == All)
    assert(range(string, str("", true), None, nulls = true) == All)
    assert(range(int, None, None, nulls = false).expression("k") == "k IS NOT NULL")
    assert(All.implies(Range(int, None, None, nulls = true)))
    assert(!All.implies(Range(int, None, None, nulls = false)))
  }

  test("infinity as an upper end leaves NaN out") {
    val r = range(double, None, dbl(Double.PositiveInfinity, true), nulls = true)
    assert(!r.passes(double.fromInternal(Double.NaN)))
    assert(!r.allPass(ColumnBounds(double.fromInternal(1d), null, mayHaveNulls = false, mayHaveValues = true)))
  }

  test("a range of one value is a point, unless the value has several bit patterns") {
    assert(range(int, in(5), in(5), nulls = false).points.contains(Seq(Long.box(5))))
    assert(range(int, ex(4), ex(6), nulls = false).points.contains(Seq(Long.box(5))))
    assert(range(int, in(5), in(5), nulls = true).points.isEmpty)
    assert(range(double, dbl(1, true), dbl(1, true), nulls = false).points.isDefined)
    assert(range(double, dbl(0, true), dbl(0, true), nulls = false).points.isEmpty)
    assert(range(double, dbl(Double.NaN, true), None, nulls = false).points.isEmpty)
    val a = UTF8String.fromString("a")
    assert(range(string, str("a", true), str("a", true), nulls = false).points.contains(Seq(a)))
    assert(Nothing.points.contains(Nil))
    assert(All.points.isEmpty)
  }

  test("each generation of a tightening bound implies the one before") {
    val bounds = Seq(range(int, None, in(9), true), range(int, None, ex(9), true), range(int, None, ex(5), false))
    bounds.sliding(2).foreach { case Seq(before, after) =>
      assert(after.implies(before) && !before.implies(after))
    }
  }

  test("an exclusive end of a string is tighter than an inclusive one") {
    val open = range(string, str("a", false), None, nulls = false)
    val closed = range(string, str("a", true), None, nulls = false)
    assert(open.implies(closed) && !closed.implies(open) && open.and(closed) == open && closed.and(open) == open)
  }

  test("filters of different types imply nothing and do not combine") {
    val a = range(int, in(1), None, nulls = false)
    val b = range(KeyDomain.forType(DateType).toOption.get, in(0), None, nulls = false)
    assert(!a.implies(b))
    intercept[IllegalArgumentException](a.and(b))
    intercept[IllegalArgumentException](NullsOnly(int).and(NullsOnly(double)))
  }

  test("an end without a key is refused") {
    intercept[IllegalArgumentException](Range(int, Some(End(null, inclusive = true)), None, nulls = false))
  }

  test("expressions read as users write them") {
    def text(f: ValueFilter): String = f.expression("k")
    assert(text(All) == "true" && text(Nothing) == "false" && text(NullsOnly(int)) == "k IS NULL")
    assert(text(range(int, None, in(50), false)) == "k <= 50")
    assert(text(range(int, None, ex(10), false)) == "k < 10")
    assert(text(range(int, in(50), in(1000), false)) == "50 <= k <= 1000")
    assert(text(range(int, ex(50), ex(1000), false)) == "50 < k < 1000")
    assert(text(range(int, in(50), None, false)) == "k >= 50")
    assert(text(range(int, ex(50), None, false)) == "k > 50")
    assert(text(range(int, in(5), in(5), false)) == "k = 5")
    assert(text(range(int, None, in(10), true)) == "(k <= 10 OR k IS NULL)")
    assert(text(range(string, str("a", true), str("b", false), false)) == "'a' <= k < 'b'")
    assert(text(Range(int, in(5), in(4), nulls = true)) == "k IS NULL")
    assert(text(Range(int, in(5), in(4), nulls = false)) == "false")
    assert(text(Range(int, None, None, nulls = true)) == "true")
  }

  test("forms have the names of the reports") {
    val forms = Seq(All, Nothing, range(int, in(1), None, false), NullsOnly(int)).map(_.form)
    assert(forms == Seq("all", "nothing", "range", "range"))
  }

  test("merged bounds ignore the ends of a side that has no values") {
    val five = ColumnBounds.exact(Long.box(5))
    val both = ColumnBounds.merge(five, ColumnBounds.onlyNulls)(int)
    assert(both == ColumnBounds(Long.box(5), Long.box(5), mayHaveNulls = true, mayHaveValues = true))
    assert(ColumnBounds.merge(ColumnBounds.onlyNulls, five)(int) == both)
    assert(ColumnBounds.merge(five, ColumnBounds.unknown)(int) == ColumnBounds.unknown)
    assert(ColumnBounds.exact(null) == ColumnBounds.onlyNulls)
  }
}

package org.dynamicfilters.filter

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What is special to sets; what holds for every filter is in ValueFilterSuite, SelectSuite and FilterCodecSuite. */
class MembersSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ValueFilter._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200, sizeRange = 20)

  private val int = new LongDomain(IntegerType)
  private val long = new LongDomain(LongType)
  private val string = new ObjectDomain(StringType)

  private def ends(d: KeyDomain, lo: AnyRef, hi: AnyRef, nulls: Boolean = false): Range =
    Range(d, Some(End(lo, inclusive = true)), Some(End(hi, inclusive = true)), nulls)

  private def longs(lo: Long, hi: Long, nulls: Boolean = false): Range = ends(long, Long.box(lo), Long.box(hi), nulls)

  private def everything(d: KeyDomain, nulls: Boolean): Range = Range(d, None, None, nulls)

  private def values(xs: Long*): LongValues = LongValues(long, xs.toArray)
  private def bitmap(xs: Long*): LongBitmap = LongBitmap.build(long, xs.toArray)
  private def bloom(xs: Long*): Bloom = Bloom.build(long, xs.toArray, 0.01)

  private def of(set: LongSet, nulls: Boolean = false): ValueFilter = members(set, everything(long, nulls))

  private def bounds(lo: Long, hi: Long): ColumnBounds =
    ColumnBounds(Long.box(lo), Long.box(hi), mayHaveNulls = false, mayHaveValues = true)

  Values.all.foreach { t =>
    test(s"the simplest filter of a set of $t passes the members within the range") {
      forAll(t.someKeys, t.rawRanges, t.nullable) { (keys, r, v) =>
        val k = t.domain.fromInternal(v)
        t.setsOf(keys).foreach { set =>
          val within = if (set.isExact) r else r.intersect(ends(t.domain, keys.head, keys.last, r.nulls))
          assert(members(set, within).passes(k) == (if (k == null) r.nulls else within.passes(k) && set.contains(k)))
        }
      }
    }

    test(s"an exact set of $t rules out bounds between its members") {
      forAll(t.rawMembers, t.keys, t.keys) { (f, a, b) =>
        val (lo, hi) = if (t.domain.compare(a, b) <= 0) (a, b) else (b, a)
        f.keys match {
          case _: Bloom =>
          case set =>
            val all = set match {
              case s: LongSet => s.toArray.toSeq.map(Long.box(_): AnyRef)
              case o: ObjectValues => o.sorted.toSeq
              case i: LongIntervals => i.ends.grouped(2).flatMap(e => e.head to e.last).map(Long.box(_): AnyRef).toSeq
              case _: Bloom => Nil
            }
            val expected = all.exists(k => f.passes(k) && t.domain.compare(k, lo) >= 0 && t.domain.compare(k, hi) <= 0)
            assert(f.couldPass(ColumnBounds(lo, hi, mayHaveNulls = false, mayHaveValues = true)) == expected)
            val open = all.exists(k => f.passes(k) && t.domain.compare(k, lo) >= 0)
            assert(f.couldPass(ColumnBounds(lo, null, mayHaveNulls = false, mayHaveValues = true)) == open)
        }
      }
    }
  }

  private val integers: Seq[Values] =
    Values.all.filter(t => Seq(ByteType, ShortType, IntegerType, LongType).contains(t.dataType))

  for (from <- integers; to <- integers)
    test(s"a filter of $from converted to $to passes the same numbers") {
      forAll(from.filters, to.nullable) { (f, v) =>
        val k = to.domain.fromInternal(v)
        val fits = k == null || from.domain.isKey(k)
        // Beyond the type it was made for, only an open end may pass.
        if (fits) assert(f.convert(to.domain).passes(k) == f.passes(k))
        else
          f match {
            case _: Members | _: Both | Nothing => assert(!f.convert(to.domain).passes(k))
            case _ =>
          }
      }
    }

  test("between other types a filter is converted to one that passes everything") {
    val f = of(values(1, 5))
    assert(f.convert(string) == All && f.convert(new LongDomain(DateType)) == All && f.convert(long) == f)
    assert(Nothing.convert(string) == Nothing)
    val date = new LongDomain(DateType)
    assert(NullsOnly(date).convert(long) == All && NullsOnly(date).convert(date) == NullsOnly(date))
  }

  test("conversion leaves out what the type does not have") {
    val byte = new LongDomain(ByteType)
    assert(of(values(-1000, 5, 7, 1000)).convert(byte).expression("k") == "5 <= k <= 7 AND k IN (2 values)")
    assert(of(bitmap(-1000, 5, 7, 1000)).convert(byte).expression("k") == "5 <= k <= 7 AND k IN (bitmap of 2 values)")
    assert(of(values(300, 500)).convert(byte) == Nothing)
    assert(of(values(300, 500), nulls = true).convert(byte) == NullsOnly(byte))
    assert(of(values(5, 300)).convert(byte).expression("k") == "k = 5")
    assert(longs(300, 500).convert(byte) == Nothing && longs(-5, 500).convert(byte).expression("k") == "-5 <= k <= 127")
    assert(
      Members(longs(5, 900), bloom(5, 900))
        .convert(byte)
        .expression("k") == "5 <= k <= 127 AND k IN (bloom filter of 2 values)"
    )
  }

  test("a set that is a range is shown as one") {
    assert(of(values(5)).expression("k") == "k = 5")
    assert(of(bitmap(5, 6, 7)) == longs(5, 7))
    assert(of(values(), nulls = false) == Nothing && of(values(), nulls = true) == NullsOnly(long))
    assert(members(values(1, 5, 9), longs(2, 8)) == longs(5, 5))
    assert(members(values(1, 9), longs(2, 8, nulls = true)) == NullsOnly(long))
    assert(of(values(Long.MinValue, Long.MaxValue)).isInstanceOf[Members])
    val a = UTF8String.fromString("a")
    assert(members(ObjectValues(string, Array(a)), everything(string, false)) == ends(string, a, a))
  }

  test("expressions and forms read as users know them") {
    assert(of(values(50, 60, 1000)).expression("k") == "50 <= k <= 1000 AND k IN (3 values)")
    assert(of(values(50, 1000), nulls = true).expression("k") == "(50 <= k <= 1000 AND k IN (2 values) OR k IS NULL)")
    assert(of(bitmap(50, 1000)).expression("k") == "50 <= k <= 1000 AND k IN (bitmap of 2 values)")
    val b = Members(longs(50, 1000), bloom(50, 70, 1000))
    assert(b.expression("k") == "50 <= k <= 1000 AND k IN (bloom filter of 3 values)")
    assert(Seq(of(values(1, 3)), of(bitmap(1, 3)), b).map(_.form) == Seq("range+in", "range+bitmap", "range+bloom"))
    assert(Both(b, of(bitmap(1, 3))).form == "range+bloom+bitmap")
    assert(Both(b, b).form == "range+bloom")
  }

  test("no gap between the ends means that all rows pass") {
    val f = Members(longs(1, 9), values(1, 2, 3, 9))
    assert(f.allPass(bounds(1, 3)) && f.allPass(bounds(9, 9)) && !f.allPass(bounds(3, 9)) && !f.allPass(bounds(0, 3)))
    assert(!f.allPass(bounds(Long.MinValue, Long.MaxValue)))
    assert(!f.couldPass(bounds(4, 8)) && f.couldPass(bounds(3, 4)))
  }

  test("the members are points, unless they are many or one of them has several bit patterns") {
    assert(of(values(1, 5)).points.contains(Seq(1L, 5L).map(Long.box)))
    assert(of(bitmap(1, 5)).points.contains(Seq(1L, 5L).map(Long.box)))
    assert(of(values(1, 5), nulls = true).points.isEmpty && Members(longs(1, 5), bloom(1, 5)).points.isEmpty)
    assert(of(LongValues(long, Array.tabulate(1001)(_ * 2L))).points.isEmpty)
    val double = new LongDomain(DoubleType)
    val zero = LongValues(double, Array(0L, SortableBits.ofDouble(1)))
    assert(members(zero, everything(double, nulls = false)).points.isEmpty)
  }

  test("what two filters have in common is as exact as the more exact of the two") {
    assert(of(values(1, 5, 9)).and(longs(2, 20)).expression("k") == "5 <= k <= 9 AND k IN (2 values)")
    assert(of(bitmap(1, 5, 9)).and(of(bitmap(5, 9, 12))).expression("k") == "5 <= k <= 9 AND k IN (bitmap of 2 values)")
    assert(of(values(1, 5, 9)).and(of(bitmap(5, 7, 12))) == longs(5, 5))
    assert(of(values(1, 5)).and(of(values(2, 6))) == Nothing)
    assert(of(values(1, 5, 9)).and(Members(longs(1, 9), bloom(1, 9))).form == "range+in")
    val blooms = Members(longs(1, 9), bloom(1, 9)).and(Members(longs(1, 7), bloom(1, 7)))
    assert(blooms.isInstanceOf[Both] && blooms.and(of(values(1, 3, 7))).form.startsWith("range"))
  }

  test("a range cuts a bloom filter, ends that are left out included") {
    val keys = Seq("a", "b", "c").map(UTF8String.fromString)
    val set = Bloom.build(string, keys.map(Bloom.code(string, _)).toArray, 0.01)
    val above = Range(string, Some(End(keys.head, inclusive = false)), None, nulls = false)
    val cut = Members(ends(string, keys.head, keys.last), set).and(above)
    assert(cut.expression("k") == "'a' < k <= 'c' AND k IN (bloom filter of 3 values)")
    assert(!cut.passes(keys.head) && cut.passes(keys(1)))
    assert(FilterCodec.decode(FilterCodec.encode(cut)) == Right(cut))
  }

  test("a set without ends, outside of them or of another type is refused") {
    intercept[IllegalArgumentException](Members(everything(long, nulls = false), values(1, 5)))
    intercept[IllegalArgumentException](Members(longs(1, 4), values(1, 5)))
    intercept[IllegalArgumentException](Members(longs(5, 1), bloom(1, 5)))
    intercept[IllegalArgumentException](Members(ends(int, Long.box(1), Long.box(5)), values(1, 5)))
    intercept[IllegalArgumentException](of(values(1, 5)).and(ends(int, Long.box(1), Long.box(5))))
  }

  test("a selection of many rows by each kind of lookup") {
    val random = new scala.util.Random(6)
    val dense = Array.tabulate(3000)(_ * 7L)
    val sparse = Array.tabulate(300)(i => i.toLong * i * 70 + (if (i == 299) 1L << 40 else 0L))
    val rows = Seq.fill(4000)(random.nextInt(4) match {
      case 0 => null
      case 1 => sparse(random.nextInt(300))
      case _ => random.nextInt(30000).toLong
    })
    for (
      codes <- Seq(dense, sparse); set <- Seq(LongValues(long, codes), LongBitmap.build(long, codes));
      nulls <- Seq(true, false)
    ) {
      val f = of(set, nulls)
      val v = Vectors.onHeap(LongType, rows)
      val s = new Selection(rows.size)
      s.all(rows.size)
      f.select(v, s)
      val expected = rows.indices.filter(i => f.passes(long.fromInternal(rows(i))))
      assert(s.rows.take(s.count).toSeq == expected && expected.nonEmpty)
      v.close()
    }
  }
}

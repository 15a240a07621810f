package org.dynamicfilters.filter

import java.lang.management.ManagementFactory

import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.proto.PartialMessage

/** From rows to the filter for the other side of the join. */
class KeyCollectorSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import ValueFilter._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 100, sizeRange = 30)

  private val limits = KeyLimits(maxRows = 1000000, inMaxValues = 10000, bloomFpp = 0.01, maxFilterBytes = 8L << 20)

  private def collect(t: Values, values: Iterable[Any], limits: KeyLimits = limits, partitions: Int = 1): KeyPartial = {
    val c = KeyCollector(t.domain, limits, partitions)
    values.foreach(v => c.add(InternalRow(v), 0))
    c.result()
  }

  private def ints(values: Iterable[Any], limits: KeyLimits = limits, partitions: Int = 1): KeyPartial =
    collect(Values.ints, values, limits, partitions)

  private def strings(values: Iterable[String], limits: KeyLimits = limits, partitions: Int = 1): KeyPartial =
    collect(Values.strings, values.map(UTF8String.fromString), limits, partitions)

  private def numbers(ascending: Long*): KeyPartial.Keys =
    KeyPartial.Distinct(LongValues(Values.longs.domain.asInstanceOf[LongDomain], ascending.toArray))

  private def setOf(p: KeyPartial): KeySet = p.keys match {
    case KeyPartial.Distinct(set) => set
    case other => fail(s"$other")
  }

  private def numbersOf(p: KeyPartial): Seq[Long] = setOf(p) match {
    case s: LongSet => s.toArray.toSeq
    case other => fail(s"$other")
  }

  private val comparisons =
    Seq(Comparison.Less, Comparison.LessOrEqual, Comparison.Greater, Comparison.GreaterOrEqual, Comparison.Equal)

  Values.all.foreach { t =>
    t.domain match {
      case d: LongDomain =>
        test(s"the filter of collected intervals of $t passes what is in one of them") {
          val rows = Gen.listOf(Gen.zip(t.nullable, t.nullable))
          val sides = Gen.choose(1, 4).flatMap(Gen.listOfN(_, rows))
          val operators = Gen.zip(Gen.oneOf(comparisons), Gen.oneOf(comparisons))
          forAll(sides, operators, Gen.choose(1, 20), Gen.listOf(t.nullable)) { (partitions, compare, most, probes) =>
            val limits = this.limits.copy(inMaxValues = most)
            val parts = partitions.map { side =>
              val c = KeyCollector.ofIntervals(d, Seq(compare._1, compare._2), limits)
              side.foreach { case (a, b) => c.add(InternalRow(a, b), 0) }
              KeyPartial.decode(c.result().encode).fold(r => fail(r.text), identity)
            }
            val built = KeyPartial.build(parts, limits, nullsMatch = false)
            val matching = partitions.flatten.map { case (a, b) =>
              Comparison.filter(compare._1, d, a).and(Comparison.filter(compare._2, d, b))
            }
            (probes ++ partitions.flatten.flatMap(x => Seq(x._1, x._2))).map(d.fromInternal).foreach { k =>
              val expected = matching.exists(_.passes(k))
              if (expected || built.reduced.isEmpty) assert(built.filter.passes(k) == expected, built.filter)
            }
          }
        }
      case _ => ()
    }
  }

  private def scattered(n: Int, seed: Int = 7): Seq[Int] = {
    val random = new Random(seed)
    Iterator.continually(random.nextInt()).distinct.take(n).toSeq
  }

  Values.all.foreach { t =>
    val sides = Gen.choose(1, 4).flatMap(Gen.listOfN(_, Gen.listOf(t.nullable)))

    test(s"the filter of collected keys of $t passes these and no others") {
      val toUnsafe = UnsafeProjection.create(Array[DataType](t.dataType))
      forAll(sides, Gen.listOf(t.nullable), t.nullsPass) { (partitions, probes, nullsMatch) =>
        val parts = partitions.map { values =>
          val c = KeyCollector(t.domain, limits, partitions.size)
          // The same row again and again, as operators have it.
          values.foreach(v => c.add(toUnsafe(InternalRow(v)), 0))
          c.result()
        }
        val keys = t.distinct(partitions.flatten.filter(_ != null).map(t.domain.fromInternal))
        val hasNulls = partitions.flatten.contains(null)
        val built = KeyPartial.build(parts, limits, nullsMatch)
        assert(built.values == keys.size && built.reduced.isEmpty)
        (probes ++ partitions.flatten).map(t.domain.fromInternal).foreach { k =>
          val expected = if (k == null) hasNulls && nullsMatch else keys.exists(t.domain.compare(_, k) == 0)
          assert(built.filter.passes(k) == expected, built.filter)
        }
        if (keys.isEmpty) assert(built.filter == (if (hasNulls && nullsMatch) NullsOnly(t.domain) else Nothing))
      }
    }

    test(s"filters of $t lose no key under any limits") {
      val anyLimits = for {
        rows <- Gen.oneOf(1, 5, 1000000)
        in <- Gen.oneOf(0, 3, 10000)
        bytes <- Gen.oneOf(0L, 60L, 200L, 1000L, 8L << 20)
      } yield KeyLimits(rows, in, 0.01, bytes)
      forAll(sides, anyLimits, t.nullsPass) { (partitions, limits, nullsMatch) =>
        val parts = partitions.map(collect(t, _, limits, partitions.size))
        val built = KeyPartial.build(parts, limits, nullsMatch)
        partitions.flatten.filter(_ != null || nullsMatch).foreach { v =>
          assert(built.filter.passes(t.domain.fromInternal(v)), built)
        }
        // The smallest filters still name their type: "interval day to second".
        if (built.filter != All) assert(FilterCodec.sizeOf(built.filter) <= limits.maxFilterBytes.max(40))
      }
    }

    test(s"partials of $t are read as they were written") {
      forAll(Gen.listOf(t.nullable), Gen.oneOf(0, 2, 1000), Gen.oneOf(0L, 1000L)) { (values, in, bytes) =>
        val p = collect(t, values, KeyLimits(1000, in, 0.01, bytes))
        assert(KeyPartial.decode(p.encode) == Right(p))
        assert(JavaCopy(p) == p)
        val outgrown = p.copy(keys = KeyPartial.Outgrown(5))
        if (p.hasValues) assert(KeyPartial.decode(outgrown.encode) == Right(outgrown))
      }
    }
  }

  test("what all partitions send is within its limit, and loses no key") {
    val sent = 4000L
    val (partitions, overhead) = (10, 200)
    val narrow = limits.copy(maxSentBytes = sent)
    val sides = Seq(
      (0 until partitions).map(p => collect(Values.longs, scattered(5000).map(_.toLong << 20 + p), narrow, partitions)),
      (0 until partitions).map(p => strings((1 to 5000).map(i => s"$p-$i"), narrow, partitions))
    )
    sides.foreach { parts =>
      assert(parts.map(_.encode.length).sum <= sent + partitions * overhead)
      val filter = KeyPartial.build(parts, narrow, nullsMatch = false).filter
      assert(filter != All && parts.forall(p => filter.passes(p.min) && filter.passes(p.max)))
    }
  }

  test("the form follows from the number of keys and their type") {
    val few = limits.copy(inMaxValues = 100)
    def form(p: KeyPartial, l: KeyLimits = few): (String, Option[String]) = {
      val built = KeyPartial.build(Seq(p), l, nullsMatch = false)
      (built.filter.form, built.reduced.map(_.text))
    }
    assert(form(ints((1 to 100).map(_ * 3))) == ("range+in", None))
    assert(form(ints((1 to 101).map(_ * 3))) == ("range+bitmap", None))
    assert(form(ints(1 to 100000)) == ("range", None))
    assert(form(ints(Seq(7))) == ("range", None))
    assert(form(collect(Values.doubles, (1 to 101).map(_.toDouble))) == ("range+bloom", None))
    assert(form(strings((1 to 100).map(_.toString), few)) == ("range+in", None))
    assert(form(strings((1 to 101).map(_.toString), few)) == ("range+bloom", None))
    val far = collect(Values.longs, scattered(200).map(_.toLong << 30))
    val tooFew = Some("too few keys for a bitmap: on average fewer than 16 in each range of 2^32 numbers")
    assert(form(far) == ("range+bloom", tooFew))
    // Few keys that lie close to each other: the reason once said that they were far apart.
    assert(form(ints(Seq(9, 12, 20, 31, 33, 40)), limits.copy(inMaxValues = 5)) == ("range+bloom", tooFew))
  }

  test("a filter above its limit is reduced, and says why") {
    def built(p: KeyPartial, l: KeyLimits): (String, Option[String]) = {
      val b = KeyPartial.build(Seq(p), l, nullsMatch = false)
      assert(FilterCodec.sizeOf(b.filter) <= l.maxFilterBytes)
      (b.filter.form, b.reduced.map(_.text))
    }
    val keys = ints(scattered(20000))
    val wide = limits.copy(inMaxValues = 100000)
    assert(built(keys, wide)._1 == "range+in")
    assert(
      built(keys, wide.copy(maxFilterBytes = 40000)) == ("range+bloom", Some("a bitmap takes more than 40000 bytes"))
    )
    assert(
      built(keys, wide.copy(maxFilterBytes = 20000)) == ("range", Some("a Bloom filter takes more than 20000 bytes"))
    )
    assert(built(keys, wide.copy(maxRows = 10000)) == ("range", Some("the build side has more than 10000 keys")))
    val long = strings(Seq("x" * 5000, "y" * 5000))
    assert(built(long, limits.copy(maxFilterBytes = 1000)) == ("all", Some("even the range is larger than 1000 bytes")))
  }

  test("above the budget only the range is left, for good") {
    val small = limits.copy(maxRows = 1)
    val c = KeyCollector(Values.ints.domain, small, 1)
    (1 to 1500).foreach(i => c.add(InternalRow(i * 2), 0))
    (1 to 600).foreach(i => c.add(InternalRow(i * 2 - 7), 0))
    c.add(InternalRow(4), 0)
    c.add(InternalRow(9999), 0)
    val p = c.result()
    assert(p.outgrown && p.min == Long.box(-5) && p.max == Long.box(9999))
    val built = KeyPartial.build(Seq(p, ints(Seq(20000))), small, nullsMatch = false)
    assert(built.filter.expression("k") == "-5 <= k <= 20000")
    assert(built.reduced.exists(_.text.matches("a partition of the build side has more than \\d+ keys")))
  }

  test("the partitions share the budget") {
    val l = limits.copy(maxFilterBytes = 80000 * 8)
    // 32,000 bytes for a partition. Hashes take about eight.
    val in = l.copy(inMaxValues = 100)
    assert(!strings((1 to 3900).map(_.toString), in, partitions = 20).outgrown)
    assert(strings((1 to 4400).map(_.toString), in, partitions = 20).outgrown)
    assert(!ints(1 to 1024, l, partitions = 100000).outgrown)
  }

  test("numbers may be as many as can be sent") {
    val l = limits.copy(maxFilterBytes = 640000)
    def longs(n: Int, step: Long): KeyPartial = collect(Values.longs, (1 to n).map(_ * step), l, partitions = 20)
    assert(!longs(15000, step = 300).outgrown)
    // Two bytes each.
    val tooMany = longs(17000, step = 300)
    assert(tooMany.outgrown && tooMany.max == Long.box(17000 * 300L))
    assert(tooMany.encode.length < 100)
    // Six: they are given up long before all are there.
    longs(16000, step = 1L << 40).keys match {
      case KeyPartial.Outgrown(limit, _) => assert(limit > 3000 && limit < 8192)
      case other => fail(s"$other")
    }
    assert(!longs(1024, step = 1L << 53).outgrown)
  }

  test("one partition takes a sixteenth of its limit at most in numbers that are not close to each other") {
    val l = limits.copy(maxFilterBytes = 160000)
    assert(!ints(1 to 40000, l).outgrown)
    // It may turn out at the end.
    def far(n: Int): KeyPartial = ints(scattered(n), l.copy(maxFilterBytes = 80000))
    assert(!far(5000).outgrown && far(5001).keys == KeyPartial.Outgrown(5000) && far(9000).outgrown)
  }

  test("strings become hashes when they take too many bytes, then only the range is left") {
    val l = limits.copy(maxFilterBytes = 10000)
    def keys(n: Int): Seq[String] = (1 to n).map(i => s"$i-${"x" * 100}")
    assert(strings(keys(90), l).keys.isInstanceOf[KeyPartial.Distinct])
    val hashed = strings(keys(200), l)
    assert(hashed.keys.asInstanceOf[KeyPartial.Hashes].codes.size == 200)
    assert(strings(keys(1400), l).outgrown)
    val partial = KeyPartial.decode(hashed.encode).toOption.get
    val built = KeyPartial.build(Seq(partial, strings(Seq("a", "zz"))), l, nullsMatch = false)
    assert(built.filter.form == "range+bloom" && built.values == 202)
    (keys(200) ++ Seq("a", "zz")).foreach(k => assert(built.filter.passes(UTF8String.fromString(k))))
    assert(!built.filter.passes(UTF8String.fromString("zzz")))
  }

  test("a repeated key is one key, and NULL is none") {
    val p = ints(Seq(0, 0, null, 0, 5, 5))
    assert(p.hasNulls && numbersOf(p) == Seq(0L, 5L))
    assert(ints(Seq(null)).min == null && ints(Seq(null)).hasNulls && !ints(Nil).hasNulls)
  }

  test("the extremes of a long are keys like others") {
    val p = collect(Values.longs, Seq(Long.MaxValue, Long.MinValue, 0L, Long.MaxValue))
    assert(numbersOf(p) == Seq(Long.MinValue, 0L, Long.MaxValue))
    assert(collect(Values.longs, Seq(Long.MaxValue)).min == Long.box(Long.MaxValue))
  }

  test("zeros and NaNs of any sign are one key each") {
    val p = collect(Values.doubles, Seq(0d, -0d, Double.NaN, java.lang.Double.longBitsToDouble(-1L)))
    val f = KeyPartial.build(Seq(p), limits, nullsMatch = false).filter
    assert(p.keys.asInstanceOf[KeyPartial.Distinct].set.size == 2)
    assert(
      f.passesRow(InternalRow(-0d), 0) && f.passesRow(InternalRow(Double.NaN), 0) && !f.passesRow(InternalRow(1d), 0)
    )
  }

  test("a build side without partitions lets nothing pass") {
    assert(KeyPartial.build(Nil, limits, nullsMatch = true).filter == Nothing)
  }

  test("partials of different types do not merge") {
    val parts = Seq(ints(Seq(1)), collect(Values.longs, Seq(1L)))
    intercept[IllegalArgumentException](KeyPartial.build(parts, limits, nullsMatch = false))
  }

  test("a partial of another version, type or kind is refused") {
    val p = ints(Seq(1, 5, 9))
    def refused(edit: PartialMessage.Builder => PartialMessage.Builder): Unit =
      assert(KeyPartial.decode(edit(PartialMessage.parseFrom(p.encode).toBuilder).build().toByteArray).isLeft)
    refused(_.clearMin())
    refused(_.setVersion(1))
    refused(_.clearFound())
    refused(_.setDataType(StringType.json))
  }

  test("many keys that lie close to each other are sent as a bitmap, and make the same filter as one by one") {
    val near = (0L until 60000L by 3).toSeq
    val far = Seq.tabulate(3000)(i => 1000000000L + i * 100000L)
    def longs(xs: Seq[Long]): KeyPartial = {
      val sorted = xs.distinct.sorted.toArray
      KeyPartial(
        Values.longs.domain,
        hasNulls = false,
        Long.box(sorted.head),
        Long.box(sorted.last),
        numbers(sorted.toIndexedSeq: _*)
      )
    }
    val part = collect(Values.longs, near)
    assert(setOf(part).isInstanceOf[LongBitmap])
    assert(KeyPartial.decode(part.encode) == Right(part))
    assert(part.encode.length < longs(near).encode.length)
    val others = Seq(near.map(_ + 1), near.map(_ + 30000), far, Seq(-5L), Seq(Long.MinValue, Long.MaxValue))
    (others.map(Seq(_)) :+ others).foreach { more =>
      val compressed = KeyPartial.build(part +: more.map(collect(Values.longs, _)), limits, nullsMatch = false)
      val oneByOne = KeyPartial.build(longs(near) +: more.map(longs), limits, nullsMatch = false)
      assert(compressed.values == oneByOne.values)
      assert(FilterCodec.encode(compressed.filter).sameElements(FilterCodec.encode(oneByOne.filter)))
    }
  }

  test("many far keys are merged on the driver in no more memory than two arrays of them and one to sort") {
    val rows = 300000
    val wide = limits.copy(maxRows = 2000000, maxFilterBytes = 64L << 20)
    def sides(): Unit = {
      val random = new Random(9)
      val sent = Seq.fill(6) {
        val c = KeyCollector(Values.longs.domain, wide, 6)
        val row = new GenericInternalRow(1)
        (0 until rows).foreach { _ =>
          row.update(0, random.nextLong())
          c.add(row, 0)
        }
        c.result().encode
      }
      val parts = sent.map(KeyPartial.decode(_).fold(r => fail(r.text), identity))
      val taken = allocated {
        assert(FilterBuilder.union(Values.longs.domain.asInstanceOf[LongDomain], parts.map(_.keys)).size == 6L * rows)
      }
      assert(taken < 3 * 6L * rows * 8 + (1 << 20), taken)
      val built = KeyPartial.build(parts, wide, nullsMatch = false)
      assert(built.values == 6L * rows && built.filter.form == "range+bloom")
    }
    sides() // what is loaded and compiled once
    sides()
  }

  private def allocated(body: => Unit): Long = {
    val threads = ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]
    val before = threads.getThreadAllocatedBytes(Thread.currentThread.getId)
    body
    threads.getThreadAllocatedBytes(Thread.currentThread.getId) - before
  }

  test("keys that lie close to each other take no array of them, neither in tasks nor on the driver") {
    def halves(key: Int => Long): Unit = {
      val row = new GenericInternalRow(1)
      val collectors = Seq.fill(2)(KeyCollector(Values.longs.domain, limits, 2))
      collectors.zipWithIndex.foreach { case (c, p) =>
        (0 until 400000).foreach { i =>
          row.update(0, key(p * 400000 + i))
          c.add(row, 0)
        }
      }
      var built: BuiltFilter = null
      val taken = allocated {
        val sent = collectors.map(_.result().encode)
        val parts = sent.map(KeyPartial.decode(_).fold(r => fail(r.text), identity))
        built = KeyPartial.build(parts, limits, nullsMatch = false)
      }
      assert(built.values == 800000L)
      // An array of all of them is 6.4 MB.
      assert(taken < (6 << 20), taken)
    }
    halves(_.toLong) // what is loaded and compiled once
    halves(_.toLong)
    halves(i => (i >> 3) * 32L + (i & 7))
  }
}

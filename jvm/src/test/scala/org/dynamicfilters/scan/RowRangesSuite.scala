package org.dynamicfilters.scan

import scala.collection.immutable.BitSet

import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{KeyDomain, Values, Vectors}
import org.dynamicfilters.scan.parquet.{BestRowsOfGroup, ParquetRowRanges, RowNumbering}
import org.dynamicfilters.state.TopKSpec
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class RowRangesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val total = 40L
  private val models: Gen[BitSet] = Gen.oneOf(
    Gen.listOf(Gen.choose(0, 39)).map(BitSet.empty.concat(_)),
    Gen.choose(0, 39).flatMap(a => Gen.choose(a, 39).map(b => BitSet.empty.concat(a to b))),
    Gen.oneOf(BitSet.empty, BitSet.empty.concat(0 until 40))
  )

  private def rowSet(m: BitSet): RowRanges = RowRanges.fromRows(m.toArray.map(_.toLong))
  private def model(r: RowRanges): BitSet =
    BitSet.empty.concat((0 until r.ranges).flatMap(i => r.start(i).toInt to r.end(i).toInt))

  /** Ascending, disjoint and not adjacent. */
  private def checkForm(r: RowRanges): Unit = {
    (0 until r.ranges).foreach(i => assert(r.start(i) <= r.end(i)))
    (1 until r.ranges).foreach(i => assert(r.start(i) > r.end(i - 1) + 1))
    assert(r.count == model(r).size && r.isEmpty == (r.count == 0))
  }

  test("a set of rows is as many ranges as it has gaps") {
    forAll(models) { m =>
      checkForm(rowSet(m))
      assert(model(rowSet(m)) == m)
    }
    assert(RowRanges.all(total).toString == "[0, 39]" && RowRanges.all(0).isEmpty)
  }

  test("intersections and complements are those of sets") {
    forAll(models, models) { (a, b) =>
      val both = rowSet(a).intersect(rowSet(b))
      checkForm(both)
      assert(model(both) == (a & b))
      val rest = rowSet(a).complement(total)
      checkForm(rest)
      assert(model(rest) == BitSet.empty.concat(0 until 40) -- a)
    }
  }

  test("overlapping and adjacent ranges are joined") {
    val ranges = Gen.listOf(Gen.choose(0, 35).flatMap(a => Gen.choose(a, a + 4).map((a, _))))
    forAll(ranges) { unordered =>
      val b = new RowRanges.Builder
      unordered.sorted.foreach { case (from, to) => b.add(from.toLong, to.toLong) }
      checkForm(b.result())
      assert(model(b.result()) == BitSet.empty.concat(unordered.flatMap { case (f, t) => f to t }))
    }
  }

  test("rows are numbered batch by batch as the set has them") {
    forAll(models, Gen.choose(1, 7)) { (m, size) =>
      val numbering = new RowNumbering(rowSet(m))
      val numbered = m.toSeq.grouped(size).flatMap(g => numbering.next(g.size).take(g.size).toSeq).toSeq
      assert(numbered == m.toSeq.map(_.toLong))
    }
  }

  test("a batch larger than the first buffer is numbered too") {
    assert(new RowNumbering(RowRanges.all(10000)).next(10000).take(10000).toSeq == (0L until 10000L))
  }

  test("Parquet's form of the ranges has the same rows") {
    forAll(models) { m =>
      val ranges = ParquetRowRanges(rowSet(m), total)
      assert(ranges.rowCount == m.size)
      val it = ranges.iterator()
      assert(Iterator.continually(it).takeWhile(_.hasNext).map(_.nextLong()).toSeq == m.toSeq.map(_.toLong))
    }
  }

  /** Orders by keys of the type, and values. */
  private def runs(t: Values) = for {
    values <- Gen.listOf(t.nullable)
    limit <- Gen.choose(1, 8)
    ascending <- Gen.oneOf(true, false)
    nullsFirst <- Gen.oneOf(true, false)
  } yield (TopKSpec(t.domain, limit, ascending, nullsFirst, tiesFree = true), values)

  private def offered(s: TopKSpec, dataType: DataType, values: Seq[Any]): BestRowsOfGroup = {
    val v = Vectors.onHeap(dataType, values)
    val best = BestRowsOfGroup(s)
    try values.indices.foreach(i => best.offer(v, i, i.toLong))
    finally v.close()
    best
  }

  Values.all.foreach { t =>
    test(s"the best rows by $t are the first of the sorted ones") {
      forAll(runs(t)) { case (s, values) =>
        val best = offered(s, t.dataType, values)
        val keys = values.map(t.domain.fromInternal)
        val expected =
          keys.filter(k => k != null || s.nullsFirst).sorted(Ordering.comparatorToOrdering(s.order)).take(s.limit)
        val actual = best.rows.toSeq.map(r => keys(r.toInt)).sorted(Ordering.comparatorToOrdering(s.order))
        assert(best.rows.length == expected.size && best.bound.isDefined == (expected.size == s.limit))
        // With nulls first, NULL and the value of the least code are not told apart.
        def least(k: AnyRef): Boolean = s.nullsFirst && (k match {
          case null => true
          case l: java.lang.Long => l == (if (s.ascending) Long.MinValue else Long.MaxValue)
          case _ => false
        })
        assert(actual.zip(expected).forall { case (a, e) =>
          s.order.compare(a, e) == 0 || (least(a) && least(e))
        } && best.rows.toSeq == best.rows.toSeq.distinct.sorted)
        assert(best.bound.forall(b => s.order.compare(b, expected.last) == 0 || (b == null && least(expected.last))))
      }
    }
  }

  // Each limit makes the collection choose the best at another number of rows.
  Seq(1, 10, 3000).foreach { limit =>
    Seq("rising" -> ((i: Long) => i / 2), "falling" -> ((i: Long) => -i), "mixed" -> ((i: Long) => (i * 7919) % 9973))
      .foreach { case (name, key) =>
        test(s"the $limit best of many $name rows") {
          val values = (0L until 50000L).map(key)
          val s = TopKSpec(Values.longs.domain, limit, ascending = false, nullsFirst = false, tiesFree = true)
          val best = offered(s, Values.longs.dataType, values)
          val rows = best.rows.toSeq
          assert(rows.map(r => values(r.toInt)).sorted == values.sorted.takeRight(limit) && rows.distinct == rows)
          assert(best.bound.contains(Long.box(values.sorted.takeRight(limit).head)))
          val texts = values.map(v => UTF8String.fromString(f"${v + 100000}%09d"))
          val byText = offered(s.copy(domain = KeyDomain.known(StringType)), StringType, texts)
          assert(byText.rows.map(r => values(r.toInt)).sorted.toSeq == values.sorted.takeRight(limit))
        }
      }
  }
}

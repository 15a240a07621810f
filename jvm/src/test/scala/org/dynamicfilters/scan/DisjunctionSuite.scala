package org.dynamicfilters.scan

import org.apache.spark.sql.types.IntegerType
import org.dynamicfilters.filter.{ColumnBounds, End, KeyDomain, Selection, ValueFilter, Vectors}
import org.dynamicfilters.scan.Pruner.{PassesAll, PassesNone, PassesSome}
import org.dynamicfilters.state.TopKSpec
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Filters of which a row has to pass only one. */
class DisjunctionSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val int = KeyDomain.forType(IntegerType).toOption.get
  private def key(i: Int) = int.fromInternal(i)
  private def below(i: Int) = ValueFilter.range(int, None, Some(End(key(i), inclusive = false)), nulls = false)
  private def above(i: Int) = ValueFilter.range(int, Some(End(key(i), inclusive = false)), None, nulls = false)
  private def rows(ranges: (Long, Long)*): RowRanges = {
    val b = new RowRanges.Builder
    ranges.foreach { case (from, to) => b.add(from, to) }
    b.result()
  }

  private val value: Gen[Any] = Gen.frequency(8 -> Gen.choose(-20, 20), 1 -> Gen.const(null))

  test("a row stays if one of the filters lets it pass") {
    val batches = for {
      n <- Gen.choose(0, 60)
      x <- Gen.listOfN(n, value)
      y <- Gen.listOfN(n, value)
      before <- Gen.listOfN(n, Gen.oneOf(true, false))
      lo <- Gen.choose(-20, 20)
      hi <- Gen.choose(-20, 20)
    } yield (x, y, before, below(lo), above(hi))
    forAll(Gen.listOfN(3, batches)) { three =>
      // The same pass for several batches of different sizes, as in a row group.
      val filters =
        Disjunction.from(
          IndexedSeq(Disjunct(0, three.head._4, PassesSome), Disjunct(1, three.head._5, PassesSome))
        )
      val pass = filters.flatMap(_.pass(Some(_))).get
      three.foreach { case (x, y, before, _, _) =>
        val (f, g) = (three.head._4, three.head._5)
        val vectors = Seq(x, y).map(Vectors.onHeap(IntegerType, _))
        val s = new Selection(64)
        before.zipWithIndex.collect { case (true, i) => i }.foreach { i => s.rows(s.count) = i; s.count += 1 }
        pass.select(vectors, s)
        vectors.foreach(_.close())
        val expected = x.indices.filter { i =>
          before(i) && (f.passes(int.fromInternal(x(i))) || g.passes(int.fromInternal(y(i))))
        }
        assert(s.rows.take(s.count).toSeq == expected)
      }
    }
  }

  test("they exclude nothing as soon as one of them lets everything pass") {
    def of(effect: Pruner.Effect) =
      Disjunction.from(IndexedSeq(Disjunct(0, below(3), PassesSome), Disjunct(1, above(9), effect)))
    assert(of(PassesSome).isDefined && of(PassesNone).isDefined)
    assert(of(PassesAll).isEmpty)
    assert(Disjunction.from(IndexedSeq.empty).isEmpty)
  }

  test("pages are those that one of them leaves, if all of them know pages") {
    val both =
      Disjunction.from(IndexedSeq(Disjunct(0, below(3), PassesSome), Disjunct(1, above(9), PassesSome))).get
    val known = Map(0 -> rows(0L -> 9L), 1 -> rows(5L -> 14L, 40L -> 49L))
    val all = both.rowsOfPages(known.get).get
    assert(all.intersect(rows(0L -> 14L, 40L -> 49L)).count == 25 && all.count == 25)
    assert(both.rowsOfPages(c => known.get(c).filter(_ => c == 0)).isEmpty)
    assert(both.pass(c => Option.when(c == 0)(0)).isEmpty)
  }

  test("the best by each of them are read first, in turns") {
    def bounds(min: Int, max: Int) = ColumnBounds(key(min), key(max), mayHaveNulls = false, mayHaveValues = true)
    val (a, b, c, d) = (bounds(0, 5), bounds(1, 9), bounds(2, 30), bounds(3, 20))
    val orders =
      Seq(true, false).map(ascending => (0, TopKSpec(int, 1, ascending, nullsFirst = false, tiesFree = true)))
    assert(BestFirst.sort(Seq(d, b, a, c), orders)((x, _) => x) == Seq(a, c, b, d))
    assert(BestFirst.sort(Seq(d, b, a, c), orders.take(1))((x, _) => x) == Seq(a, b, c, d))
    assert(BestFirst.sort(Seq.empty[ColumnBounds], orders)((x, _) => x).isEmpty)
  }
}

package org.dynamicfilters.filter

import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class DistinctLongsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val most = 1 << 20

  private def upTo(keys: Int, sentBytes: Long = Long.MaxValue, memory: Long = 32L << 20): DistinctLimits =
    DistinctLimits(keys, sentBytes, memory)

  private def of(xs: Iterable[Long], limits: DistinctLimits = upTo(most)): DistinctLongs = {
    val set = new DistinctLongs(limits)
    xs.foreach(set.add)
    set
  }

  private def shuffled(xs: Seq[Long]): Seq[Long] = new Random(3).shuffle(xs)

  /** Runs of numbers here and there, at the ends of what a long can be as well. */
  private val runs: Gen[Seq[Long]] = {
    val start = Gen.oneOf(
      Gen.const(Long.MinValue),
      Gen.const(Long.MaxValue - 9000),
      Gen.const(-5L),
      Gen.choose(-100000000L, 100000000L),
      Gen.long
    )
    val run = for {
      s <- start
      step <- Gen.oneOf(1, 4, 1000)
      n <- Gen.choose(1, 9000)
    } yield (0 until n).map(i => s + i.toLong * step)
    Gen.choose(1, 4).flatMap(Gen.listOfN(_, run)).map(rs => shuffled(rs.flatten))
  }

  test("has each number once, ascending, whatever their distances") {
    forAll(runs, minSuccessful(60)) { xs =>
      val set = of(xs ++ xs.take(100))
      assert(set.sorted.toSeq == xs.distinct.sorted)
      assert(set.size == xs.distinct.size)
    }
  }

  test("refuses a number more than there may be, and knows the others still") {
    forAll(runs, Gen.choose(1, 12000), minSuccessful(60)) { (xs, mostKeys) =>
      val set = new DistinctLongs(upTo(mostKeys))
      val known = scala.collection.mutable.HashSet.empty[Long]
      xs.foreach { x =>
        val added = set.add(x)
        assert(added == (known.contains(x) || known.size < mostKeys))
        if (added) known += x
      }
      assert(set.sorted.toSeq == known.toSeq.sorted)
    }
  }

  test("numbers close to each other take one bit each") {
    assert(of(shuffled((0L until 100000L).map(_ * 4))).isDense)
    assert(of((0L until 100000L).map(_ + 5000000000L)).isDense)
  }

  test("few numbers, and numbers far from each other, do not") {
    assert(!of(0L until 2000L).isDense)
    assert(!of((0L until 100000L).map(_ * 1000003L)).isDense)
  }

  test("a number far away ends the bits for good") {
    val set = of((0L until 10000L) ++ Seq(Long.MaxValue) ++ (10000L until 60000L) ++ Seq(Long.MinValue))
    assert(!set.isDense)
    assert(set.sorted.toSeq == Seq(Long.MinValue) ++ (0L until 60000L) ++ Seq(Long.MaxValue))
  }

  test("more numbers go into bits than into a table of that memory") {
    val memory = 64L << 10
    assert(of((0L until 100000L).map(_ * 2), upTo(most, memory = memory)).size == 100000)
    assert(of((0L until 100000L).map(_ * 1000003L), upTo(most, memory = memory)).size == memory / 16)
    // Back from bits to the table is no way for so many.
    val set = of((0L until 100000L) :+ Long.MaxValue, upTo(most, memory = memory))
    assert(set.isDense && set.sorted.toSeq == (0L until 100000L))
  }

  test("a table is closed once its members would take too many bytes when they are sent") {
    val step = 1L << 40 // six bytes
    assert(of((0L until 100000L).map(_ * step), upTo(most, sentBytes = 60000)).size == 16384)
    assert(of((0L until 100000L).map(_ * 10000), upTo(most, sentBytes = 200000)).size == 100000)
  }

  test("numbers as far apart as longs can be take ten bytes when they are sent") {
    val ends = Seq(Long.MinValue, Long.MaxValue)
    assert(of(ends ++ (0L until 5000L), upTo(most, sentBytes = 20000)).size == 4096)
    assert(of((0L until 5000L) ++ ends ++ (5000L until 9000L), upTo(most, sentBytes = 20000)).size < 5010)
  }
}

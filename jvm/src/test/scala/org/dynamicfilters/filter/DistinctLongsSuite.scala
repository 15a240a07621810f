package org.dynamicfilters.filter

import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types.LongType

class DistinctLongsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val most = 1 << 20
  private val domain = new LongDomain(LongType)

  private def upTo(keys: Int, sentBytes: Long = Long.MaxValue, memory: Long = 32L << 20): DistinctLimits =
    DistinctLimits(keys, sentBytes, memory)

  private def of(xs: Iterable[Long], limits: DistinctLimits = upTo(most)): DistinctLongs = {
    val set = new DistinctLongs(domain, limits)
    xs.foreach(set.add)
    set
  }

  /** None if they are too many. */
  private def members(set: DistinctLongs): Option[Seq[Long]] = set.result().toOption.map(_.toArray.toSeq)

  private def isBitmap(xs: Iterable[Long]): Boolean = of(xs).result().exists(_.isInstanceOf[LongBitmap])

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
      assert(members(of(xs ++ xs.take(100))).contains(xs.distinct.sorted))
    }
  }

  test("gives up where there are more than there may be, and never before") {
    forAll(runs, Gen.choose(1, 12000), minSuccessful(60)) { (xs, mostKeys) =>
      val set = new DistinctLongs(domain, upTo(mostKeys))
      val distinct = xs.distinct.size
      (xs ++ xs).foreach(set.add)
      set.result() match {
        case Right(all) => assert(distinct <= mostKeys && all.toArray.toSeq == xs.distinct.sorted)
        case Left(exceeded) => assert(distinct > mostKeys && exceeded < distinct && set.outgrown)
      }
    }
  }

  test("numbers close to each other take one bit each") {
    assert(isBitmap(shuffled((0L until 100000L).map(_ * 4))))
    assert(isBitmap((0L until 100000L).map(_ + 5000000000L)))
  }

  test("few numbers, and numbers far from each other, do not") {
    assert(!isBitmap(0L until 2000L))
    assert(!isBitmap((0L until 100000L).map(_ * 1000003L)))
  }

  test("numbers far away stand beside the bits") {
    val set = of((0L until 10000L) ++ Seq(Long.MaxValue) ++ (10000L until 60000L) ++ Seq(Long.MinValue))
    assert(members(set).contains(Seq(Long.MinValue) ++ (0L until 60000L) ++ Seq(Long.MaxValue)))
    // Few of them are in a bitmap; many would take more in it than one by one.
    val far = (1L to 1000L).map(_ << 40)
    assert(isBitmap((0L until 60000L) ++ far) && !isBitmap((0L until 10000L) ++ far))
    assert(members(of((0L until 10000L) ++ far)).contains((0L until 10000L) ++ far))
  }

  test("numbers that ascend or descend, one out of two or out of 255, are bits as well") {
    for (step <- Seq(1L, 2L, 255L); sign <- Seq(1L, -1L)) {
      val all = (0L until 100000L).map(_ * step * sign)
      assert(isBitmap(all) && members(of(all)).contains(all.sorted))
    }
  }

  test("more numbers go into bits than there may be one by one in that memory") {
    val limits = upTo(most, memory = 64L << 10)
    assert(members(of((0L until 100000L).map(_ * 2), limits)).exists(_.size == 100000))
    assert(members(of((0L until 4096L).map(_ * 1000003L), limits)).exists(_.size == 4096))
    val far = of((0L until 100000L).map(_ * 1000003L), limits)
    assert(far.outgrown && far.result().left.exists(_ >= 4096))
  }

  test("they are given up once they would take too many bytes when they are sent") {
    val step = 1L << 40 // six bytes
    val limits = upTo(most, sentBytes = 60000)
    assert(members(of((0L until 10000L).map(_ * step), limits)).contains((0L until 10000L).map(_ * step)))
    val far = of((0L until 40000L).map(_ * step), limits)
    assert(far.outgrown && far.result().left.exists(n => n >= 10000 && n <= 30000))
    assert(members(of((0L until 11000L).map(_ * step), upTo(most, sentBytes = 60000))).isEmpty)
    assert(members(of((0L until 100000L).map(_ * 10000), upTo(most, sentBytes = 400000))).exists(_.size == 100000))
  }

  test("the same numbers again and again take no more room, in whatever order") {
    val random = new Random(5)
    Seq(1, 100, 3000, 70000).foreach { n =>
      val known = Array.fill(n)(random.nextLong())
      val set = new DistinctLongs(domain, upTo(most))
      (0 until 400000).foreach(_ => set.add(known(random.nextInt(n))))
      known.foreach(set.add)
      assert(members(set).contains(known.distinct.sorted.toSeq))
    }
  }
}

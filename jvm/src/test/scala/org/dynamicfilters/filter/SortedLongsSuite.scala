package org.dynamicfilters.filter

import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class SortedLongsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val far = Gen.oneOf(Gen.long, Gen.oneOf(Long.MinValue, -1L, 0L, 1L, Long.MaxValue))
  private val near = Gen.choose(-300L, 300L)
  private val lists = Gen.oneOf(Gen.listOf(far), Gen.listOf(near), Gen.listOf(Gen.oneOf(far, near)))

  test("sorting drops what is repeated, and leaves alone what comes after") {
    val random = new Random(13)
    val sizes = Seq(0, 1, 2, 513, 70000)
    val numbers: Seq[Int => Long] = Seq(
      _ => random.nextLong(),
      _ => random.nextInt(100).toLong,
      _ => (1L << 40) + random.nextInt(70000),
      i => i.toLong * 7,
      i => -i.toLong,
      _ => 5L,
      i => if (i % 2 == 0) Long.MinValue + random.nextInt(9) else Long.MaxValue - random.nextInt(9)
    )
    for (n <- sizes; number <- numbers) {
      val xs = Array.tabulate(n + 3)(i => if (i < n) number(i) else 77L)
      val expected = xs.take(n).distinct.sorted
      val kept = SortedLongs.distinct(xs, n)
      assert(xs.take(kept).sameElements(expected))
      assert(xs.drop(n).forall(_ == 77L))
    }
  }

  test("the union has each number of each array once") {
    forAll(Gen.choose(0, 9).flatMap(Gen.listOfN(_, lists))) { all =>
      val union = SortedLongs.union(all.map(_.toArray.distinct.sorted))
      assert(union.toSeq == all.flatten.distinct.sorted)
      assert(SortedLongs.ascend(union) && SortedLongs.highs(union, union.length) == union.map(_ >> 32).distinct.length)
    }
  }

  test("numbers take as many bytes as it says when they are packed") {
    forAll(lists) { xs =>
      val sorted = xs.distinct.sorted.toArray
      val steps = KeyCodec.longs(sorted)
      val others = steps.toBuilder.clearSteps().build().getSerializedSize
      val bytes = SortedLongs.packedBytes(sorted, sorted.length)
      assert(steps.getSerializedSize - others - bytes <= 6 && steps.getSerializedSize >= bytes)
      assert(KeyCodec.readLongs(steps).toSeq == sorted.toSeq)
    }
  }
}

package org.dynamicfilters.filter

import scala.util.Random

import com.google.protobuf.ByteString
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.dynamicfilters.proto.PackedLongs

/** Sorted, compressed, merged. */
class LongRunSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private val far = Gen.oneOf(Gen.long, Gen.oneOf(Long.MinValue, -1L, 0L, 1L, Long.MaxValue))
  private val near = Gen.choose(-300L, 300L)
  private val lists = Gen.oneOf(Gen.listOf(far), Gen.listOf(near), Gen.listOf(Gen.oneOf(far, near)))

  private def runOf(xs: Iterable[Long]): LongRun = LongRun.of(xs.toArray.distinct.sorted)
  private def read(b: ByteString): Either[String, LongRun] = FilterCodec.reading("set")(LongRun.decode(b))

  test("a run has the numbers that it was made of") {
    forAll(lists) { xs =>
      val sorted = xs.distinct.sorted
      val run = runOf(xs)
      assert(run.toArray.toSeq == sorted && run.size == sorted.size && run.isEmpty == xs.isEmpty)
      if (xs.nonEmpty) assert(run.least == sorted.head && run.greatest == sorted.last)
      assert(run.parts == sorted.map(_ >> 32).distinct.size)
      assert(xs.forall(run.contains) && !run.contains(12345L) || xs.contains(12345L))
      assert(LongRun.of((f: java.util.function.LongConsumer) => sorted.foreach(f.accept(_))) == run)
      assert(JavaCopy(run) == run)
    }
  }

  test("a run is the bytes of the message, and comes back") {
    forAll(lists) { xs =>
      val run = runOf(xs)
      assert(PackedLongs.parseFrom(run.encode) == KeyCodec.longs(run.toArray))
      assert(read(run.encode) == Right(run))
      assert(read(KeyCodec.longs(run.toArray).toByteString) == Right(run))
      assert(read(run.encode).exists(r => r.parts == run.parts && r.isEmpty || r.greatest == run.greatest))
    }
  }

  test("a damaged run is refused, or has other numbers that ascend") {
    val random = new Random(11)
    forAll(lists) { xs =>
      val whole = runOf(xs).encode.toByteArray
      whole.indices.foreach(n => assert(read(ByteString.copyFrom(whole, 0, n)).forall(_.isEmpty)))
      if (whole.nonEmpty) (0 until 50).foreach { _ =>
        val bytes = whole.clone()
        bytes(random.nextInt(bytes.length)) = random.nextInt().toByte
        read(ByteString.copyFrom(bytes)).foreach { run =>
          val all = run.toArray
          assert(all.length == run.size && LongValues.ascend(all) && run.parts == LongRoaring.parts(all))
          assert(run.isEmpty || all.head == run.least && all.last == run.greatest)
        }
      }
    }
  }

  test("a run of more steps than it says is refused, and one with a step of zero or beyond the greatest long") {
    def packed(first: Long, count: Int, steps: Long*): Either[String, LongRun] = {
      val m = PackedLongs.newBuilder().setFirst(first).setCount(count)
      steps.foreach(m.addSteps(_))
      read(m.build().toByteString)
    }
    assert(packed(5, 3, 1, 2).map(_.toArray.toSeq) == Right(Seq(5L, 6L, 8L)))
    Seq(
      packed(5, 2, 1, 2),
      packed(5, 4, 1, 2),
      packed(5, 3, 1, 0),
      packed(5, 2, Long.MaxValue),
      packed(5, 0),
      packed(5, -1)
    )
      .foreach(r => assert(r.isLeft))
    assert(packed(Long.MinValue, 2, -1L).map(_.greatest) == Right(Long.MaxValue))
  }

  test("the union has each number of each run once") {
    forAll(Gen.choose(0, 9).flatMap(Gen.listOfN(_, lists))) { all =>
      assert(LongRun.union(all.map(runOf)) == runOf(all.flatten))
    }
  }

  test("the union of many runs is that of their numbers") {
    val random = new Random(12)
    Seq(1L << 14, 1L << 40, Long.MaxValue).foreach { below =>
      val all = Seq.fill(200)(Seq.fill(random.nextInt(600))(random.nextLong() % below))
      assert(LongRun.union(all.map(runOf)) == runOf(all.flatten))
    }
  }

  test("sorting drops what is repeated, and leaves alone what comes after") {
    val random = new Random(13)
    val sizes = Seq(0, 1, 2, 511, 512, 513, 3000, 70000)
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
      val kept = LongSort.distinct(xs, n)
      assert(xs.take(kept).sameElements(expected))
      assert(xs.drop(n).forall(_ == 77L))
    }
  }

  test("distinct numbers are estimated within a few per cent, however often each comes") {
    val random = new Random(14)
    for (most <- Seq(1024, 100000, 1 << 20); share <- Seq(0.1, 1.0, 2.0); step <- Seq(0L, 1L, 64L, 1L << 32)) {
      val n = (most * share).toInt
      val estimate = new DistinctEstimate(most)
      val all = Array.tabulate(n)(i => if (step == 0L) random.nextLong() else i * step)
      (0 until 2).foreach(_ => all.foreach(estimate.add))
      val found = estimate.distinct
      assert(math.abs(found - n) < n * 0.08 + 20, (most, n, step, found))
    }
  }

  test("where there is no bit left the estimate says that there are too many") {
    val estimate = new DistinctEstimate(1000)
    (0 until 1000000).foreach(i => estimate.add(i.toLong))
    assert(estimate.distinct > 10000)
  }
}

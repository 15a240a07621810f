package org.dynamicfilters.filter

import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.immutable.BitSet
import scala.util.Random

import org.roaringbitmap.RoaringBitmap
import org.scalacheck.Gen
import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimits}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types._

class KeySetSuite extends AnyFunSuite with ScalaCheckPropertyChecks with TimeLimits {
  implicit private val signaler: Signaler = ThreadSignaler

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200, sizeRange = 30)

  private val long = new LongDomain(LongType)

  /** Numbers close to each other and to the borders of the bitmaps inside, in runs, alone, and at the extremes. */
  private val numbers: Gen[Array[Long]] = Gen
    .nonEmptyListOf(
      Gen.frequency(
        5 -> Gen.choose(-70L, 70L).map(Seq(_)),
        2 -> (for (from <- Gen.choose(-70000L, 70000L); n <- Gen.choose(1, 300)) yield from until from + n),
        2 -> Gen.oneOf(1L << 32, -1L << 32, 1L << 40).flatMap(b => Gen.choose(b - 3, b + 3)).map(Seq(_)),
        2 -> Gen.long.map(Seq(_)),
        1 -> Gen.oneOf(Seq(Long.MinValue), Seq(Long.MaxValue), Seq(Long.MinValue + 1, Long.MaxValue - 1))
      )
    )
    .map(_.flatten.distinct.sorted.toArray)

  private def near(all: Array[Long]): Gen[Long] =
    Gen.oneOf(Gen.oneOf(all.toSeq).flatMap(x => Gen.oneOf(x - 1, x, x + 1)), Gen.long)

  private def sets(all: Array[Long]): Seq[LongSet] = Seq(LongValues(long, all), LongBitmap.build(long, all))

  Values.all.foreach { t =>
    test(s"a set of $t contains what was put in, and an exact one nothing else") {
      forAll(t.someKeys, t.keys) { (keys, other) =>
        t.setsOf(keys).foreach { set =>
          assert(keys.forall(set.contains), set)
          if (!set.isInstanceOf[LongIntervals]) assert(set.size == keys.size)
          if (set.isExact) assert(set.contains(other) == keys.exists(t.domain.compare(_, other) == 0), set)
        }
      }
    }

    test(s"sets of $t are equal if their content is") {
      forAll(t.someKeys, t.someKeys) { (a, b) =>
        val same = a.size == b.size && a.indices.forall(i => t.domain.compare(a(i), b(i)) == 0)
        t.setsOf(a).zip(t.setsOf(b)).foreach { case (x, y) =>
          if (same) assert(x == y && x.hashCode == y.hashCode) else if (x.isExact) assert(x != y)
        }
      }
    }

    test(s"sets of $t survive Java serialization") {
      forAll(t.keySets, t.keys, minSuccessful(30)) { (set, k) =>
        val copy = JavaCopy(set)
        assert(copy == set && copy.hashCode == set.hashCode && copy.contains(k) == set.contains(k))
      }
    }
  }

  test("values and bitmap answer as a sorted set does") {
    forAll(numbers) { all =>
      val expected = scala.collection.immutable.TreeSet(all.toSeq: _*)
      forAll(near(all), near(all), minSuccessful(10)) { (a, b) =>
        val (lo, hi) = (a min b, a max b)
        val between = all.filter(x => x >= lo && x <= hi)
        sets(all).foreach { set =>
          assert(set.least == all.head && set.greatest == all.last && set.toArray.sameElements(all))
          assert(set.containsLong(a) == expected(a))
          assert(set.ceiling(a) == expected.minAfter(a))
          assert(set.floor(a) == all.filter(_ <= a).lastOption)
          assert(set.countBetween(lo, hi) == between.length)
          assert(set.between(lo, hi).fold(Array.emptyLongArray)(_.toArray).sameElements(between))
        }
      }
    }
  }

  test("every way to look up rows finds the members and no others") {
    forAll(numbers) { all =>
      val set = LongBitmap.build(long, all)
      val lookups = Seq(LongLookup.build(set), new LongTable(set))
      forAll(near(all), minSuccessful(20))(x => lookups.foreach(l => assert(l.test(x) == all.contains(x), l)))
    }
  }

  test("sets are looked up by bits if dense, else in a table") {
    assert(LongLookup.build(LongValues(long, Array(5L, 65000L))).isInstanceOf[LongBits])
    assert(LongLookup.build(LongValues(long, Array(5L, 80000L))).isInstanceOf[LongTable])
    assert(LongLookup.build(LongValues(long, Array(Long.MinValue, Long.MaxValue))).isInstanceOf[LongTable])
    assert(LongLookup.build(LongBitmap.build(long, Array.tabulate(1 << 17)(_ * 64L))).isInstanceOf[LongBits])
    assert(LongLookup.build(LongBitmap.build(long, Array.tabulate(1 << 17)(_ * 640L))).isInstanceOf[LongTable])
  }

  test("a table of the extremes does not take its free slots for members") {
    val extremes = Array(Long.MinValue, Long.MinValue + 1, Long.MaxValue)
    val table = new LongTable(LongValues(long, extremes))
    assert(extremes.forall(table.test))
    assert(Seq(Long.MinValue + 2, 0L, Long.MaxValue - 1).forall(!table.test(_)))
  }

  test("a bitmap is read as it was written") {
    forAll(numbers) { all =>
      val set = LongBitmap.build(long, all)
      assert(set.encode.length == set.sizeInBytes)
      assert(LongBitmap.decode(long, set.encode) == Right(set))
    }
  }

  test("a bitmap has the portable bytes that other libraries write") {
    // One part with upper half 0: its number of parts, its upper half, then a plain 32-bit bitmap.
    val plain = RoaringBitmap.bitmapOf(1, 5, 100000)
    val bytes = ByteBuffer.allocate(12 + plain.serializedSizeInBytes).order(ByteOrder.LITTLE_ENDIAN)
    bytes.putLong(1).putInt(0)
    plain.serialize(bytes)
    assert(LongBitmap.decode(long, bytes.array) == Right(LongBitmap.build(long, Array(1L, 5L, 100000L))))
    // Upper halves are written in unsigned order.
    val mixed = LongBitmap.build(long, Array(-1L, 1L)).encode
    assert(ByteBuffer.wrap(mixed).order(ByteOrder.LITTLE_ENDIAN).getInt(8) == 0)
  }

  test("runs that begin at or about a multiple of 2^31 have all of their members") {
    for (multiple <- -3L to 3L; before <- Seq(-3, 0, 1, 70000); length <- Seq(1, 2, 5, 200, 65536, 200000)) {
      val all = Array.tabulate(length)(i => (multiple << 31) - before + i)
      val found = Array.newBuilder[Long]
      LongBitmap.build(long, all).foreach(found += _)
      assert(found.result().sameElements(all), s"$length from $before before $multiple * 2^31")
    }
  }

  test("a bitmap is a part of another one if all of its members are") {
    // Containers of all three kinds, equal ones, and such that lack or have one more member at an end or in between.
    val random = new Random(6)
    def chunk(kind: Int): BitSet = kind match {
      case 0 => Seq.fill(20)(random.nextInt(1 << 16)).to(BitSet)
      case 1 => (random.nextInt(2) until (1 << 16) by 2).to(BitSet)
      case 2 =>
        (0 until 3)
          .flatMap { _ =>
            val at = random.nextInt(60000); at to at + random.nextInt(5000)
          }
          .to(BitSet)
    }
    def bits(s: BitSet) = LongBitmap.build(long, s.iterator.map(_ + (1L << 31)).toArray)
    var parts = 0
    for (kind <- 0 to 2; other <- 0 to 2; _ <- 0 until 30) {
      val a = chunk(kind)
      val b = if (random.nextBoolean()) a | chunk(other) else chunk(other)
      val members = a.toArray
      val ends = Seq(a.min, a.max, a.max + 1, a.min - 1, members(random.nextInt(members.length))).map(_ & 0xffff)
      val bitsOfA = bits(a)
      (Seq(b) ++ ends.flatMap(e => Seq(b - e, b + e)) ++ ends.map(a - _)).filter(_.nonEmpty).foreach { c =>
        val isPart = a.subsetOf(c)
        assert(bitsOfA.isSubsetOf(bits(c)) == isPart, s"$kind $other")
        if (isPart) parts += 1
      }
    }
    assert(parts > 100)
    // The library's own contains says yes here: the run's last member is not looked at.
    val inForce = (0 until 10000) ++ (20000 to 60000 by 2) ++ (65536 to 400000)
    val update = (0 to 10000) ++ (65536 until 400000)
    assert(!bits(update.to(BitSet)).isSubsetOf(bits(inForce.to(BitSet))))
  }

  test("a damaged bitmap is refused or is another valid one") {
    val random = new Random(3)
    forAll(numbers, minSuccessful(300)) { all =>
      val whole = LongBitmap.build(long, all).encode
      assert(LongBitmap.decode(long, whole.take(random.nextInt(whole.length))).isLeft)
      assert(LongBitmap.decode(long, whole :+ 0.toByte).isLeft)
      (0 until 20).foreach { _ =>
        val bytes = whole.clone()
        bytes(random.nextInt(bytes.length)) = random.nextInt().toByte
        LongBitmap.decode(long, bytes).foreach { read =>
          // What it says one by one is what it says at once.
          val found = Array.newBuilder[Long]
          read.foreach(found += _)
          val numbers = found.result()
          assert(SortedLongs.ascend(numbers) && numbers.length == read.size && numbers.forall(read.containsLong))
        }
      }
    }
  }

  test("a large bitmap is read and looked up: arrays, bits and runs") {
    val random = new Random(4)
    val all = (Seq.fill(20000)(random.nextInt(1 << 18).toLong) ++ (500000L until 800000L) ++
      Seq.fill(3000)(random.nextInt().toLong)).distinct.sorted.toArray
    val bits = LongBitmap.build(long, all)
    assert(LongBitmap.decode(long, bits.encode) == Right(bits))
    assert(all.forall(bits.containsLong) && bits.size == all.length)
    val damaged = bits.encode
    (0 until 2000).foreach { _ =>
      val at = random.nextInt(damaged.length)
      val before = damaged(at)
      damaged(at) = random.nextInt().toByte
      LongBitmap.decode(long, damaged)
      damaged(at) = before
    }
  }

  /** Looked at member by member, these 2^35 numbers in 7 MB took half a minute. */
  test("reading a bitmap takes time by its bytes, not by its members") {
    val low = RoaringBitmap.bitmapOfRange(0L, 1L << 32)
    val bytes = ByteBuffer.allocate(8 + 8 * (4 + low.serializedSizeInBytes)).order(ByteOrder.LITTLE_ENDIAN)
    bytes.putLong(8L)
    (0 until 8).foreach { high =>
      bytes.putInt(high)
      low.serialize(bytes)
    }
    failAfter(10.seconds) {
      assert(LongBitmap.decode(long, bytes.array).map(_.size) == Right(1L << 35))
    }
  }

  test("a bloom filter passes about as many others as was asked for") {
    val bloom = Bloom.build(long, Array.tabulate(10000)(_.toLong), 0.01)
    val passed = (10000L until 110000L).count(x => bloom.contains(Long.box(x)))
    assert(passed < 2000)
  }

  test("values that do not ascend are refused") {
    intercept[IllegalArgumentException](LongValues(long, Array(2L, 1L)))
    intercept[IllegalArgumentException](LongValues(long, Array(1L, 1L)))
    intercept[IllegalArgumentException](LongBitmap.build(long, Array.emptyLongArray))
  }

  test("sets are named by their number of values, not by the values") {
    assert(LongValues(long, Array(1L)).text == "1 value")
    assert(LongValues(long, Array(1L, 3L)).text == "2 values")
    assert(LongBitmap.build(long, Array(1L, 3L)).text == "bitmap of 2 values")
    assert(Bloom.build(long, Array(1L, 3L), 0.1).text == "bloom filter of 2 values")
  }
}

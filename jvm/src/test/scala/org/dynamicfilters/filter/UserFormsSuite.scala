package org.dynamicfilters.filter

import java.io.{ByteArrayOutputStream, DataOutputStream}

import org.roaringbitmap.RoaringBitmap
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

class UserFormsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import UserForms.Refusal

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 100, sizeRange = 50)

  private val long = new LongDomain(LongType)
  private val int = new LongDomain(IntegerType)
  private val string = new ObjectDomain(StringType)

  private def boxed(xs: Seq[Long]): Iterator[AnyRef] = xs.iterator.map(Long.box)
  private def bytes32(xs: Int*): Array[Byte] = {
    val out = new ByteArrayOutputStream()
    val bitmap = RoaringBitmap.bitmapOf(xs: _*)
    bitmap.runOptimize()
    bitmap.serialize(new DataOutputStream(out))
    out.toByteArray
  }
  private def damaged(r: Either[Refusal, ValueFilter]): Boolean = r match {
    case Left(refusal) => refusal.isDamaged
    case _ => false
  }

  test("a list passes exactly its values, as a bitmap or not") {
    forAll(Gen.listOf(Gen.oneOf(Gen.choose(-20L, 20L), Gen.long)), Gen.oneOf(true, false), Gen.oneOf(0, 100000)) {
      (xs, nulls, most) =>
        val f = UserForms.values(long, boxed(xs), nulls, most)
        assert(f.passes(null) == nulls)
        (xs ++ xs.map(_ + 1) ++ (-21L to 21L)).foreach(x => assert(f.passes(Long.box(x)) == xs.contains(x)))
    }
    assert(UserForms.values(long, boxed(0L to 100000L by 2), nulls = false, 1000).form == "range+bitmap")
    assert(UserForms.values(long, boxed((0L to 1000L).map(_ << 33)), nulls = false, 10).form == "range+in")
  }

  test("texts likewise") {
    forAll(Gen.listOf(Gen.alphaNumStr), Gen.oneOf(true, false)) { (xs, nulls) =>
      val keys = xs.map(UTF8String.fromString)
      val f = UserForms.values(string, keys.iterator, nulls, 10)
      val bloom = UserForms.bloom(string, keys.iterator, nulls, 0.01)
      assert(f.passes(null) == nulls && bloom.passes(null) == nulls)
      keys.foreach(k => assert(f.passes(k) && bloom.passes(k)))
      assert(!f.passes(UTF8String.fromString("-")))
    }
  }

  test("a test of codes says what its filter says") {
    val d = new LongDomain(DoubleType)
    val doubles = Seq(0.0, -0.0, 1.5, Double.NaN, Double.PositiveInfinity, -3.0)
    forAll(Gen.someOf(doubles), Gen.oneOf(true, false)) { (xs, nulls) =>
      val f = UserForms.values(d, xs.iterator.map(d.fromInternal(_)), nulls, 10)
      doubles.map(d.fromInternal(_)).foreach { key =>
        assert(f.longTest.test(key.asInstanceOf[java.lang.Long]) == f.passes(key))
      }
    }
    forAll(Gen.listOf(Gen.choose(-50L, 50L)), Gen.choose(-50L, 50L), Gen.choose(-50L, 50L)) { (xs, a, b) =>
      val within = ValueFilter.range(long, Some(End(Long.box(a), true)), Some(End(Long.box(b), true)), nulls = false)
      val bloom = UserForms.bloom(long, boxed(xs), nulls = false, 0.3)
      Seq(UserForms.values(long, boxed(xs), nulls = false, 5), bloom, bloom.and(within), ValueFilter.All).foreach { f =>
        (-51L to 51L).foreach(x => assert(f.longTest.test(x) == f.passes(Long.box(x))))
      }
    }
  }

  test("bitmaps of 32 and 64 bits, told or found out") {
    forAll(Gen.nonEmptyListOf(Gen.oneOf(Gen.choose(0, 300), Gen.choose(0, Int.MaxValue)))) { xs =>
      val expected = UserForms.values(int, boxed(xs.map(_.toLong)), nulls = false, 0)
      val small = bytes32(xs: _*)
      val large = LongBitmap.build(long, xs.map(_.toLong).distinct.sorted.toArray).encode
      Seq(small -> 32, small -> 0, large -> 64, large -> 0).foreach { case (bytes, bits) =>
        val f = UserForms.bitmap(int, bytes, bits).toOption.get
        assert(f.implies(expected) && expected.implies(f))
      }
    }
    val runs = bytes32(0 until 100000: _*)
    assert(UserForms.bitmap(long, runs, 0).toOption.get.passes(Long.box(99999)))
  }

  test("empty bitmaps pass nothing") {
    val empty32 = bytes32()
    Seq(empty32 -> 32, empty32 -> 0, new Array[Byte](8) -> 64, new Array[Byte](8) -> 0).foreach { case (bytes, bits) =>
      assert(UserForms.bitmap(long, bytes, bits) == Right(ValueFilter.Nothing))
    }
  }

  test("bytes cut anywhere are refused") {
    Seq(bytes32(1, 2, 70000, 1 << 30), LongBitmap.build(long, Array(1L, 2L, 1L << 40)).encode).foreach { whole =>
      (0 until whole.length).foreach { n =>
        Seq(0, 32, 64).foreach(bits => assert(damaged(UserForms.bitmap(long, whole.take(n), bits)), s"$n $bits"))
      }
      assert(damaged(UserForms.bitmap(long, whole :+ 0.toByte, 0)))
    }
  }

  test("what is no value of the type is refused, with the number") {
    def reason(d: KeyDomain, bytes: Array[Byte], bits: Int) = UserForms.bitmap(d, bytes, bits) match {
      case Left(Refusal(why, false)) => why
      case other => fail(s"$other")
    }
    assert(reason(int, bytes32(5, -7), 32).contains("4294967289"))
    assert(reason(new LongDomain(ByteType), bytes32(5, 128), 32).contains("128, which is no tinyint"))
    assert(reason(long, LongBitmap.build(long, Array(-2L, 1L)).encode, 64).contains("18446744073709551614"))
    assert(reason(string, bytes32(1), 32).contains("a bitmap holds integers"))
    assert(reason(new LongDomain(TimestampType), bytes32(1), 32).contains("a bitmap holds integers"))
    // As unsigned numbers they fit in a bigint.
    assert(UserForms.bitmap(long, bytes32(-7), 32).toOption.get.passes(Long.box(4294967289L)))
  }
}

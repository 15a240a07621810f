package org.dynamicfilters.filter

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types._
import org.dynamicfilters.proto._

class FilterCodecSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def number(n: Long): FilterKey = FilterKey.newBuilder().setNumber(n).build()

  private def lower(k: FilterKey): RangeEnd = RangeEnd.newBuilder().setKey(k).build()

  private def message(form: FilterForm): Array[Byte] =
    FilterMessage.newBuilder().setVersion(FilterCodec.version).setFilter(form).build().toByteArray

  private def range(dataType: String, end: RangeEnd): Array[Byte] =
    message(FilterForm.newBuilder().setRange(RangeForm.newBuilder().setDataType(dataType).setLower(end)).build())

  test("as many filters of one column as a user may give are read as they were written") {
    val domain = Values.longs.domain.asInstanceOf[LongDomain]
    def bloom(i: Int) =
      UserForms.bloom(domain, Iterator.range(i, i + 3).map(n => Long.box(n.toLong)), nulls = false, 0.1)
    val all = (0 until FilterCodec.mostParts).map(i => bloom(-i)).reduceLeft[ValueFilter](ValueFilter.Both(_, _))
    assert(FilterCodec.decode(FilterCodec.encode(all)) == Right(all))
    assert(FilterCodec.decode(FilterCodec.encode(all) :+ 12.toByte).isLeft, "a group that nobody began")
  }

  private def refused(bytes: Array[Byte], reason: String): Unit =
    FilterCodec.decode(bytes) match {
      case Left(why) => assert(why.contains(reason))
      case Right(f) => fail(s"read as $f")
    }

  Values.all.foreach { t =>
    test(s"a filter of $t is read as it was written") {
      forAll(t.filters)(f => assert(FilterCodec.decode(FilterCodec.encode(f)) == Right(f)))
    }

    test(s"a message about $t that is cut short is refused with a reason") {
      forAll(t.filters, minSuccessful(20)) { f =>
        val whole = FilterCodec.encode(f)
        whole.indices.foreach(n => assert(FilterCodec.decode(whole.take(n)).left.exists(_.nonEmpty)))
      }
    }
  }

  test("random bytes never throw") {
    val random = new Random(2)
    (0 until 20000).foreach { _ =>
      FilterCodec.decode(random.nextBytes(random.nextInt(60)))
      // Past the version, too.
      FilterCodec.decode(Array[Byte](8, FilterCodec.version.toByte, 18) ++ random.nextBytes(random.nextInt(60)))
    }
  }

  test("an unknown version is refused with a reason") {
    val all = FilterForm.newBuilder().setAll(AllForm.getDefaultInstance)
    refused(FilterMessage.newBuilder().setVersion(1).setFilter(all).build().toByteArray, "version 1")
    refused(FilterMessage.newBuilder().setVersion(-1).setFilter(all).build().toByteArray, "version 4294967295")
    refused(FilterMessage.newBuilder().setFilter(all).build().toByteArray, "version 0")
    refused(Array.emptyByteArray, "version 0")
  }

  test("a message without a filter and a key that does not fit its type are refused") {
    refused(FilterMessage.newBuilder().setVersion(FilterCodec.version).build().toByteArray, "no filter")
    refused(range(LongType.json, RangeEnd.getDefaultInstance), "wrong kind")
    refused(range(StringType.json, lower(number(1))), "wrong kind")
    refused(range(ByteType.json, lower(number(128))), "out of range")
    refused(range(DoubleType.json, lower(number(-1))), "out of range")
  }

  test("a type that has no filters is refused with a reason") {
    val end = lower(number(5))
    refused(range("", end), "unknown type")
    refused(range("\"no such type\"", end), "unknown type")
    refused(range("\"decimal(99,2)\"", end), "unknown type")
    refused(range("\"long", end), "unknown type")
    refused(range("\"string collate UNICODE\"", end), "UTF8_BINARY compare")
    refused(range(CalendarIntervalType.json, end), "not supported")
  }

  test("the JSON of a nested type is not even parsed") {
    refused(range("[" * 100000, lower(number(5))), "unknown type")
    refused(range(new StructType().add("a", LongType).json, lower(number(5))), "unknown type")
    refused(range("""{"type":"udt","class":"C","pyClass":"","sqlType":"long"}""", lower(number(5))), "unknown type")
  }
}

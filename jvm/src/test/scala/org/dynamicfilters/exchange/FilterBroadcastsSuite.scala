package org.dynamicfilters.exchange

import org.dynamicfilters.plan.SparkTests
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

/** What is known of filters' broadcasts is bounded by those that are there: each filter that went to a scan stayed. */
class FilterBroadcastsSuite extends AnyFunSuite with SparkTests with Eventually {
  test("a broadcast that is destroyed, or whose plan is gone, is forgotten") {
    val before = FilterBroadcasts.known
    def scan(): Unit = FilterBroadcasts.ofScan(spark.sparkContext, None, Array[Byte](1))
    (1 to 20).foreach(_ => FilterBroadcasts.destroy(FilterBroadcasts.ofExecution(spark.sparkContext, Array[Byte](1))))
    assert(FilterBroadcasts.known == before)
    (1 to 20).foreach(_ => scan())
    eventually(timeout(30.seconds), interval(100.millis)) {
      System.gc()
      scan()
      assert(FilterBroadcasts.known < before + 10)
    }
  }
}

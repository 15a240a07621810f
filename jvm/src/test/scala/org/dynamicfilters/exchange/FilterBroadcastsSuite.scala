package org.dynamicfilters.exchange

import java.util.concurrent.atomic.AtomicBoolean

import org.dynamicfilters.plan.SparkTests
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

/** The number of known broadcasts is bounded by those that exist. Each broadcast that went to a scan once stayed known. */
class FilterBroadcastsSuite extends AnyFunSuite with SparkTests with Eventually {
  test("a broadcast whose plan is gone is forgotten") {
    val before = FilterBroadcasts.known
    def scan(): Unit = FilterBroadcasts(spark.sparkContext, None, Array[Byte](1))
    (1 to 20).foreach(_ => scan())
    eventually(timeout(30.seconds), interval(100.millis)) {
      System.gc()
      scan()
      assert(FilterBroadcasts.known < before + 10)
    }
  }

  /** Spark reads its map of blocks without a lock. Asked once, `dynamic_filter_live()` failed now and then. */
  test("blocks are counted while other queries make and drop broadcasts") {
    val stopped = new AtomicBoolean
    val others = (1 to 4).map { _ =>
      val t = new Thread(() => while (!stopped.get) FilterBroadcasts(spark.sparkContext, None, new Array(10)).destroy())
      t.start()
      t
    }
    try assert((1 to 500).forall(_ => FilterBroadcasts.blocks().isDefined))
    finally {
      stopped.set(true)
      others.foreach(_.join())
    }
  }
}

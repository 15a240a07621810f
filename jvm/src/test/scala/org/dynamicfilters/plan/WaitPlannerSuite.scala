package org.dynamicfilters.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, udf}
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.scan.Wait.{Briefly, No, UntilReady}
import org.scalatest.funsuite.AnyFunSuite

/** Which probe sides are held back, by what is expected of the two sides. Ranges say how many rows they have. */
class WaitPlannerSuite extends AnyFunSuite with SparkTests {
  private val large = 100L * 1000 * 1000

  private def rows(n: Long, condition: String = "true"): DataFrame = spark.range(n).where(condition).toDF()

  private def waits(probe: DataFrame, build: DataFrame): Wait = {
    val plan = build.queryExecution.optimizedPlan
    WaitPlanner.forPlans(probe.queryExecution.optimizedPlan, plan, Estimates.estimate(plan).selectivity)
  }

  test("a large probe side waits for a build side that is read in no time") {
    assert(waits(rows(large), rows(large / 100, "id > 5")) == UntilReady)
  }

  test("a large probe side does not wait long for a build side that most rows may pass") {
    assert(waits(rows(large), rows(large / 10, "id > 5")) == Briefly)
    assert(waits(rows(large), rows(large / 10)) == Briefly)
  }

  test("a large probe side waits for a build side that few rows are expected to pass") {
    assert(waits(rows(large), rows(large / 10, "id = 5")) == UntilReady)
    assert(waits(rows(large), rows(large / 10, "id > 5 AND id < 50")) == UntilReady)
    assert(waits(rows(large), rows(large / 10, "CAST(id AS STRING) LIKE '%77%'")) == UntilReady)
  }

  test("all that the build side reads counts") {
    val small = rows(large / 100, "id > 5")
    val joined = rows(large / 10, "id > 7").join(small, "id")
    assert(waits(rows(large), small.join(small.toDF("id"), "id")) == UntilReady)
    assert(waits(rows(large), rows(large / 10).union(small)) == Briefly)
    // Both are filtered: a ninth of the keys is expected to be left.
    assert(waits(rows(large), joined) == UntilReady)
  }

  test("a small probe side waits whatever the build side is, unless that reads much more") {
    assert(waits(rows(10000), rows(30000, "id > 5")) == UntilReady)
    assert(waits(rows(10000), rows(40000, "id > 5")) == Briefly)
    assert(waits(rows(10000), rows(large / 10, "id = 5")) == Briefly)
    assert(waits(rows(large), rows(large * 4, "id = 5")) == UntilReady)
  }

  test("functions of users take time, whatever they read") {
    val slow = udf { (i: Long) => Thread.sleep(1); i }.asNonNullable()
    val sides = (rows(10000), rows(30000, "id > 5"))
    assert(waits(sides._1.where(slow(col("id")) > 3), sides._2) == Briefly)
    assert(waits(sides._1, rows(30000).where(slow(col("id")) > 3)) == Briefly)
    assert(waits(sides._1.where(slow(col("id")) > 3), sides._2.where("id = 7")) == UntilReady)
  }

  test("a small scan beside large ones does not wait for a build side that reads much more") {
    def of(scan: Long, build: Long) = WaitPlanner.forSmallScan(Reading(scan / 8.0, scan), Reading(build / 8.0, build))
    assert(of(10000, 100000).contains(No) && of(20000, 100000).contains(Briefly))
    assert(of(2L << 20, 100L << 20).contains(Briefly))
    assert(of(20000, 30000).isEmpty && of(100L << 20, 1L << 40).isEmpty)
  }

  test("a probe side of next to nothing does not wait: it may be empty, which ends the query") {
    assert(waits(rows(1000), rows(large / 10, "id = 5")) == No)
    assert(waits(rows(0), rows(1000, "id = 5")) == No)
  }

  test("no wait is longer than the setting allows") {
    assert(No.millis(10000) == 0)
    assert(UntilReady.millis(10000) == 10000 && UntilReady.millis(0) == 0)
    assert(Briefly.millis(10000) == 100 && Briefly.millis(50) == 50 && Briefly.millis(0) == 0)
  }
}

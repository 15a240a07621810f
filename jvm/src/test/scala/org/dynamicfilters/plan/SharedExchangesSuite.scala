package org.dynamicfilters.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec, ShuffleExchangeExec}
import org.scalatest.funsuite.AnyFunSuite

/** What is compared before canonical forms are must not tell apart what those make equal. */
class SharedExchangesSuite extends AnyFunSuite with SparkTests with AdaptiveSparkPlanHelper {
  private def exchange(frame: DataFrame): Exchange = withConf("spark.sql.adaptive.enabled" -> "false") {
    frame.repartition(3, frame("k")).queryExecution.sparkPlan.collectFirst { case e: ShuffleExchangeExec => e }.get
  }

  private lazy val a = write(spark.range(0, 1000).selectExpr("id AS k", "id AS v"))
  private lazy val b = write(spark.range(0, 1000).selectExpr("id AS k", "id AS v"))

  private def isLike(one: Exchange, other: Exchange): Boolean =
    SharedExchanges.likeness(one) == SharedExchanges.likeness(other)

  test("equal plans are alike, and those that read another table are not") {
    val one = exchange(spark.read.parquet(a).where("v > 3"))
    assert(isLike(one, exchange(spark.read.parquet(a).where("v > 3"))))
    assert(isLike(one, exchange(spark.read.parquet(a))))
    assert(!isLike(one, exchange(spark.read.parquet(b).where("v > 3"))))
    assert(!isLike(one, exchange(spark.read.parquet(a).selectExpr("k", "CAST(v AS INT) AS v"))))
  }

  test("scans of the same paths in another order, or named twice, are equal and alike") {
    val one = exchange(spark.read.parquet(a, b))
    Seq(exchange(spark.read.parquet(b, a)), exchange(spark.read.parquet(a, b))).foreach { other =>
      assert(one.canonicalized == other.canonicalized)
      assert(isLike(one, other))
    }
    val twice = exchange(spark.read.parquet(a, b, a))
    assert(one.canonicalized != twice.canonicalized || isLike(one, twice))
  }

  test("a stage, and an exchange that is used again, are like what they stand for") {
    val table = spark.read.parquet(a)
    val query = table.groupBy("k").count().union(table.groupBy("k").count())
    query.collect()
    val plan = query.queryExecution.executedPlan
    val made = collect(plan) { case e: ShuffleExchangeExec => e }
    val reused = collect(plan) { case r: ReusedExchangeExec => r }
    assert(made.size == 1 && reused.size == 1)
    assert(SharedExchanges.likeness(reused.head) == SharedExchanges.likeness(made.head))
    val stages = collect(plan) { case s: ShuffleQueryStageExec => s }
    assert(stages.nonEmpty)
    stages.foreach(s => assert(SharedExchanges.likeness(s) == SharedExchanges.likeness(made.head)))
  }
}

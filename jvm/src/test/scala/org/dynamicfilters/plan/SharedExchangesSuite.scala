package org.dynamicfilters.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec, ShuffleExchangeExec}
import org.apache.spark.sql.functions.{desc, expr}
import org.scalatest.funsuite.AnyFunSuite
import org.dynamicfilters.reasons.Reasons

/** What is compared before canonical forms are must not tell apart what those make equal. */
class SharedExchangesSuite extends AnyFunSuite with SparkTests with AdaptiveSparkPlanHelper {
  private def exchange(frame: DataFrame): Exchange = withConf("spark.sql.adaptive.enabled" -> "false") {
    frame.repartition(3, frame("k")).queryExecution.sparkPlan.collectFirst { case e: ShuffleExchangeExec => e }.get
  }

  private lazy val a = write(spark.range(0, 1000).selectExpr("id AS k", "id AS v"))
  private lazy val b = write(spark.range(0, 1000).selectExpr("id AS k", "id AS v"))

  private def isLike(one: Exchange, other: Exchange): Boolean =
    SharedExchanges.signature(one) == SharedExchanges.signature(other)

  test("equal plans are alike, and those of another table, type or constant are not") {
    val one = exchange(spark.read.parquet(a).where("v > 3"))
    assert(isLike(one, exchange(spark.read.parquet(a).where("v > 3"))))
    assert(isLike(one, exchange(spark.read.parquet(a).where("3 < v"))))
    assert(!isLike(one, exchange(spark.read.parquet(a).where("v > 4"))))
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
    assert(SharedExchanges.signature(reused.head) == SharedExchanges.signature(made.head))
    val stages = collect(plan) { case s: ShuffleQueryStageExec => s }
    assert(stages.nonEmpty)
    stages.foreach(s => assert(SharedExchanges.signature(s) == SharedExchanges.signature(made.head)))
  }

  private lazy val groups =
    write(spark.range(0, 8000, 1, 4).selectExpr("id", "id DIV 80 AS k", "id % 50 AS v"))

  private def best(value: String): DataFrame =
    spark.read.parquet(groups).groupBy("k").agg(expr(value).as("x")).orderBy(desc("k")).limit(5)

  private val Adaptive = "spark.sql.adaptive.enabled"
  private val Reuse = "spark.sql.exchange.reuse"
  private val values = Seq("sum(v)", "sum(v) / count(*)")

  for (adaptive <- Seq("true", "false"); value <- values)
    test(s"a TopK of $value gives the reason that its exchange is shared, adaptive execution: $adaptive") {
      withConf(Adaptive -> adaptive) {
        checkSame { val one = best(value); one.union(one) }
        val reasons = seen().reasons
        assert(reasons.nonEmpty && reasons.forall(_ == Reasons.UsedTwice.text))
      }
    }

  for (adaptive <- Seq("true", "false"); value <- values)
    test(s"equal exchanges are filtered if Spark may not reuse them: $value, adaptive execution: $adaptive") {
      withConf(Adaptive -> adaptive, Reuse -> "false") {
        checkSame { val one = best(value); one.union(one) }
        assert(seen().reasons.isEmpty && seen().filters.size == 2 && seen().fired && seen().skipped)
      }
    }

  // Spark 4.1, 4.2 and 4.3.
  private val mergingRules = Seq(
    "org.apache.spark.sql.catalyst.optimizer.MergeScalarSubqueries",
    "org.apache.spark.sql.catalyst.optimizer.MergeSubplans",
    "org.apache.spark.sql.execution.planmerging.MergeSubplans"
  )

  test("a TopK whose stage of another subquery is reused has no reason against its filter") {
    best("sum(v)").createOrReplaceTempView("best")
    val query = "SELECT (SELECT sum(k) FROM best) AS a, (SELECT count(x) FROM best) AS b"
    // Two subqueries with one exchange: Spark would merge them.
    withConf("spark.sql.optimizer.excludedRules" -> mergingRules.mkString(",")) {
      checkSame(spark.sql(query))
      assert(seen().reasons.isEmpty && seen().fired)
    }
  }
}

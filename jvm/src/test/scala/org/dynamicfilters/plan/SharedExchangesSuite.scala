package org.dynamicfilters.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{desc, expr}
import org.scalatest.funsuite.AnyFunSuite
import org.dynamicfilters.reasons.Reasons

class SharedExchangesSuite extends AnyFunSuite with SparkTests {
  private lazy val groups =
    write(spark.range(0, 8000, 1, 4).selectExpr("id", "id DIV 80 AS k", "id % 50 AS v"))

  private def best(value: String): DataFrame =
    spark.read.parquet(groups).groupBy("k").agg(expr(value).as("x")).orderBy(desc("k")).limit(5)

  private val Adaptive = "spark.sql.adaptive.enabled"
  private val Reuse = "spark.sql.exchange.reuse"
  private val values = Seq("sum(v)", "sum(v) / nullif(count(*), 0)")

  for (adaptive <- Seq("true", "false"); value <- values)
    test(s"a TopK of $value gives the reason that its exchange is shared, adaptive execution: $adaptive") {
      withConf(Adaptive -> adaptive) {
        checkSame { val one = best(value); one.union(one) }
        val reasons = seen().reasons
        assert(reasons.nonEmpty && reasons.forall(_ == Reasons.UsedTwice.text))
      }
    }

  for ((adaptive, value) <- Seq("true", "false").zip(values))
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

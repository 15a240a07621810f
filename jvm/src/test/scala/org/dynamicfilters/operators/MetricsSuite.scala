package org.dynamicfilters.operators

import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

class MetricsSuite extends AnyFunSuite with SparkTests {
  private def metric(plan: SparkPlan, node: String, name: String): Long =
    plan.collect { case p if p.nodeName == node => p.metrics(name).value }.sum

  test("operators count rows that they put out, and what a build side sends") {
    spark.read.parquet(write(spark.range(0, 4000).selectExpr("id AS k", "hex(id) AS s"))).createOrReplaceTempView("p")
    spark.read.parquet(write(spark.range(100, 140).selectExpr("id AS j", "id % 2 AS g"))).createOrReplaceTempView("b")
    val off = Seq("spark.sql.adaptive.enabled", "spark.sql.autoBroadcastJoinThreshold").zip(Seq("false", "-1"))
    val plan = withConf(off: _*) {
      val df = spark.sql("SELECT p.s FROM p JOIN (SELECT /*+ BROADCAST(b) */ j FROM b WHERE g = 0) b ON p.k = b.j")
      assert(df.collect().length == 20)
      df.queryExecution.executedPlan
    }
    assert(metric(plan, "BuildKeys", "rows") == 20)
    assert(metric(plan, "BuildKeys", "keyBytes") > 0)
    assert(metric(plan, "BuildKeys", "gaveUp") == 0)
    val scanned = metric(plan, "DynamicFilterScan", "rowsOutput")
    assert(scanned >= 20 && scanned < 4000)
    assert(metric(plan, "DynamicFilterScan", "rows") == scanned + metric(plan, "DynamicFilterScan", "rowsPruned"))
  }
}

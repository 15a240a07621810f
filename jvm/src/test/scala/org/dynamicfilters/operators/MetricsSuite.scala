package org.dynamicfilters.operators

import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

class MetricsSuite extends AnyFunSuite with SparkTests {
  private def metric(plan: SparkPlan, node: String, name: String): Long =
    plan.collect { case p if p.nodeName.startsWith(node) => p.metrics(name).value }.sum

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
    assert(metric(plan, "BuildKeys", "keys") == 20)
    assert(metric(plan, "BuildKeys", "filterBytes") > 0)
    val scanned = metric(plan, "DynamicFilterScan", "rowsOutput")
    assert(scanned >= 20 && scanned < 4000)
    assert(metric(plan, "DynamicFilterScan", "rows") == scanned + metric(plan, "DynamicFilterScan", "rowsPruned"))
  }

  test("a TopK counts the rows that it hands on") {
    spark.range(0, 4000).selectExpr("id % 1000 AS k").createOrReplaceTempView("n")
    spark.read.parquet(write(spark.table("n"))).createOrReplaceTempView("p")
    withConf("spark.sql.adaptive.enabled" -> "false") {
      val df = spark.sql("SELECT k FROM p ORDER BY k LIMIT 3")
      assert(df.collect().length == 3)
      val handedOn = metric(df.queryExecution.executedPlan, "TopKFilter", "rowsOutput")
      assert(handedOn >= 3 && handedOn < 4000)
    }
  }

  test("operators carry the ids of their filters, in no comparison of plans") {
    spark.read.parquet(write(spark.range(0, 4000).selectExpr("id AS k", "hex(id) AS s"))).createOrReplaceTempView("p")
    spark.read.parquet(write(spark.range(100, 140).selectExpr("id AS j"))).createOrReplaceTempView("b")
    withConf("spark.sql.adaptive.enabled" -> "false") {
      def planned(query: String) = spark.sql(query).queryExecution.executedPlan
      for (query <- Seq("SELECT * FROM p ORDER BY k LIMIT 3", "SELECT /*+ BROADCAST(b) */ s FROM p JOIN b ON k = j")) {
        val plans = Seq.fill(2)(planned(query))
        val names = plans.map(_.collect { case p if p.nodeName.contains("DynamicFilter#") => p.nodeName })
        assert(names.forall(_.size == 2) && names.head != names.last, names)
        assert(plans.head.sameResult(plans.last))
        // In plans as text the filters are told once.
        plans.head.treeString.linesIterator.foreach { line =>
          assert("DynamicFilter#".r.findAllMatchIn(line).size <= 1, line)
        }
      }
    }
  }

  test("more filters than fit into a name") {
    assert(NodeNames("Scan", Seq(3, 3, 4)) == "Scan DynamicFilter#3, DynamicFilter#4")
    assert(NodeNames("Scan", 1L to 9L) == "Scan DynamicFilter#1, DynamicFilter#2, DynamicFilter#3, ...")
    assert(NodeNames("Scan", Nil) == "Scan")
  }
}

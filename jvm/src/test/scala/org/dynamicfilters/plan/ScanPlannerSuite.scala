package org.dynamicfilters.plan

import org.apache.spark.sql.functions.{broadcast, col}
import org.dynamicfilters.operators.{PlanNodes, SpecScan}
import org.scalatest.funsuite.AnyFunSuite

class ScanPlannerSuite extends AnyFunSuite with SparkTests {
  test("a later query finds what was learned for each of several filters on a scan") {
    val facts = write(spark.range(0, 3000, 1, 1).select(col("id").as("k"), (col("id") % 10).as("d")))
    val days = write(spark.range(0, 3, 1, 1).toDF("d"))

    def keys: Seq[String] = {
      val joined = spark.read.parquet(facts).join(broadcast(spark.read.parquet(days)), "d")
      val plan = joined.orderBy("k").limit(5).queryExecution.executedPlan
      val specs = PlanNodes.withStages(plan).collect { case s: SpecScan => s.spec }
      specs.flatMap(spec => spec.columns.map(spec.statisticsKey))
    }
    assert(keys.size == 2 && keys == keys)
  }
}

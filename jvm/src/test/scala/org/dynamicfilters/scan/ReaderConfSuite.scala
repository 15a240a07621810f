package org.dynamicfilters.scan

import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

class ReaderConfSuite extends AnyFunSuite with SparkTests {
  private def started(): ReaderSetup = withConf("spark.sql.adaptive.enabled" -> "false") {
    val path = write(spark.range(0, 1000, 1, 2).selectExpr("id AS k"))
    val query = spark.read.option("some.key", "some value").parquet(path).where("k > 3").orderBy("k").limit(5)
    val plan = query.queryExecution.executedPlan
    query.collect()
    plan.collectFirst { case s: DynamicFilterScanExec => s }.get.spec.reader.get
  }

  test("what Spark made its reader with is known once the scan has started") {
    val setup = started()
    assert(setup.pushedDown.nonEmpty)
    assert(setup.conf.get("some.key") == "some value")
  }
}

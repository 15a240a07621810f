package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.ReaderConfAccess
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

  test("what Spark made its reader with is known once the scan has started, and the broadcast is Spark's own") {
    val setup = started()
    assert(setup.conf.get("some.key") == "some value")
    val sent = setup.sent.get.value.value
    assert(sent.get("some.key") == "some value")
    assert(sent eq setup.conf)
  }

  test("the broadcast is found through a function around the reader") {
    val setup = started()
    val sent = setup.sent.get
    val inner: PartitionedFile => Iterator[InternalRow] =
      _ => (Iterator.empty: Iterator[InternalRow]).filter(_ => sent.value.value != null)
    val outer: PartitionedFile => Iterator[InternalRow] = file => inner(file)
    assert(ReaderConfAccess.of(outer).contains(sent))
  }

  test("nothing is found in a reader of another kind") {
    val conf = new Configuration
    val none: PartitionedFile => Iterator[InternalRow] =
      _ => (Iterator.empty: Iterator[InternalRow]).filter(_ => conf.size > 0)
    assert(ReaderConfAccess.of(none).isEmpty)
    assert(ReaderConfAccess.of("a reader").isEmpty)
  }
}

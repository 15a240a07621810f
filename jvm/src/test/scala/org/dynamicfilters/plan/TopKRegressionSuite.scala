package org.dynamicfilters.plan

import org.apache.spark.sql.functions._
import org.scalatest.funsuite.AnyFunSuite

/** Queries that once gave other rows with filters than without. */
class TopKRegressionSuite extends AnyFunSuite with SparkTests {

  test("a TopK that each task of a cartesian product computes anew counts its rows once") {
    val few = write(spark.range(0, 3000, 1, 1).select((col("id") * 37 % 3000).as("k"), col("id").as("v")))
    withConf(
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      "spark.sql.adaptive.autoBroadcastJoinThreshold" -> "-1"
    ) {
      checkSame(
        spark
          .range(0, 8, 1, 8)
          .toDF("x")
          .crossJoin(spark.read.parquet(few).coalesce(1).orderBy("k").limit(20).select("k"))
          .groupBy("k")
          .count()
          .orderBy("k")
      )
    }
  }

  test("integers that are read as bytes wrap around, so their statistics say nothing") {
    val path = write(spark.range(0, 3000, 1, 1).select(col("id").cast("int").as("k"), col("id").as("v")))
    Seq("tinyint", "smallint").foreach { t =>
      checkSame(spark.read.schema(s"k $t, v bigint").parquet(path).orderBy("k").limit(5).select("k"))
    }
  }

  test("what was learned of a table that lacks a column is not used for one that has a default for it") {
    val path = newPath()
    val one = Seq("spark.sql.files.minPartitionNum" -> "1", "spark.sql.files.openCostInBytes" -> "1000000")
    spark.sql(s"create table with_default (id int) using parquet location '$path'")
    spark.sql("create table other (id int, k int) using parquet location '" + path + "'")
    spark.range(0, 2000, 1, 1).selectExpr("cast(id as int) id").write.mode("append").parquet(path)
    spark.sql("alter table with_default add column k int default 5")
    spark
      .range(0, 2000, 1, 1)
      .selectExpr("cast(id as int) id", "cast(id + 9 as int) k")
      .write
      .mode("append")
      .parquet(path)
    Thread.sleep(2500)
    withConf(one: _*) {
      spark.sql("select * from other order by k nulls first limit 5000").collect()
      checkSame(spark.sql("select k from with_default order by k nulls last limit 2"))
    }
  }
}

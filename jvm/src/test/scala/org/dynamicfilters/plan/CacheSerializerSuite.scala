package org.dynamicfilters.plan

import org.apache.spark.sql.execution.columnar.dynamicfilters.{CacheSerializers, CountlessSerializer, RowsSerializer}
import org.scalatest.funsuite.AnyFunSuite

/** Cached data of an engine with a serializer of its own. */
class CacheSerializerSuite extends AnyFunSuite with SparkTests {

  private val queries = Map(
    "shuffled join" -> "select /*+ merge(b) */ c.id, c.k from cached c join few b on c.k = b.j where b.g = 0 order by c.id",
    "broadcast join" -> "select /*+ broadcast(b) */ c.id, c.k from cached c join few b on c.k = b.j where b.g = 0 order by c.id",
    "TopK" -> "select id, k from cached order by id limit 3"
  )

  private def run(serializer: Option[String])(check: (String, Seen) => Unit): Unit = {
    val path = write(spark.range(3000).selectExpr("id", "id div 3 as k"))
    spark.range(1000).selectExpr("id as j", "id div 100 as g").createOrReplaceTempView("few")
    // Of many batches a partition: what is in the first one excludes the others, whichever task is first.
    def cached(): Unit = withConf("spark.sql.inMemoryColumnarStorage.batchSize" -> "100") {
      spark.read.parquet(path).createOrReplaceTempView("cached")
      spark.sql("cache table cached")
      try
        queries.foreach { case (name, query) =>
          checkSame(spark.sql(query))
          check(name, seen())
        }
      finally spark.sql("uncache table cached")
    }
    serializer.fold(cached())(CacheSerializers.using(spark, _)(cached()))
    nothingIsLeft()
  }

  test("Spark's own is filtered") {
    run(None)((name, s) => assert(s.fired && s.rowsPruned > 0, s"$name: $s"))
  }

  // Batches whose statistics have no counts seem to have no rows.
  Seq(
    classOf[RowsSerializer] -> "without Spark's statistics",
    classOf[CountlessSerializer] -> "that fills a part of them"
  )
    .foreach { case (serializer, what) =>
      test(s"one $what is not filtered, and the report says why") {
        run(Some(serializer.getName)) { (name, s) =>
          assert(s.scans.isEmpty && !s.fired, s"$name: $s")
          val reason = s"cached data of ${serializer.getSimpleName} has no known statistics"
          assert(s.reasons.contains(reason), s"$name: ${s.reasons}")
        }
      }
    }
}

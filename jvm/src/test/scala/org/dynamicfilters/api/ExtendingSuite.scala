package org.dynamicfilters.api

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.dynamicfilters.TestPlans.{dataFrame, logical}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types.{DoubleType, LongType}
import org.dynamicfilters.filter.{KeyDomain, UserForms}
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.scan.{ScanPlace, Wait}
import org.dynamicfilters.scan.sources.{ApiColumnFilter, ApiFilter}
import org.dynamicfilters.state.{RunningTasks, TopKRef, TopKSpec}
import org.scalatest.funsuite.AnyFunSuite

/** The examples at work: custom operators and sources that take part by implementing a trait. */
class ExtendingSuite extends AnyFunSuite with SparkTests {
  private lazy val path = write(
    spark.range(0, 6000, 1, 3).selectExpr("id", "id * 7 % 6007 as k", "md5(string(id)) as s")
  )
  private def table: DataFrame = spark.read.parquet(path)
  private def column(df: DataFrame, name: String): Attribute = logical(df).output.find(_.name == name).get
  private def audited(df: DataFrame): DataFrame = dataFrame(spark, Audit(logical(df)))
  private def blocks(n: Int): DataFrame =
    dataFrame(spark, Blocks(Seq(AttributeReference("n", LongType, nullable = false)()), n, 100))

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark.experimental.extraStrategies = Seq(ExampleStrategy)
  }
  override protected def afterAll(): Unit = {
    spark.experimental.extraStrategies = Nil
    super.afterAll()
  }

  private val shuffled = "spark.sql.autoBroadcastJoinThreshold" -> "-1"

  test("filters pass through an operator that says so") {
    checkSame(audited(table).orderBy(desc("k")).limit(10))
    assert(seen().fired && seen().rowsPruned > 0, seen())
    withConf(shuffled) {
      checkSame(
        audited(table)
          .join(table.where("id between 700 and 720").select(col("k").as("j")), col("k") === col("j"))
          .orderBy("id")
      )
      assert(seen().fired && seen().rowsPruned > 0, seen())
    }
    nothingIsLeft()
  }

  test("an operator that says which rows are its best filters its scan") {
    def query = {
      val t = table
      dataFrame(spark, Newest(column(t, "k"), 5, logical(t))).orderBy(desc("k")).limit(5)
    }
    withConf("spark.dynamicFilters.topk.maxLimit" -> "5")(checkSame(query))
    val filters = seen().filters
    assert(filters.exists(f => f.getAs[String]("producer") == "topk" && f.getAs[Long]("generation") > 0), seen())
    assert(seen().rowsPruned > 0, seen())
    nothingIsLeft()
  }

  test("an operator that says which rows match filters one child by the keys of the other") {
    Seq("true", "false").foreach { adaptive =>
      withConf("spark.sql.adaptive.enabled" -> adaptive) {
        def query = {
          val (probe, build) = (table, table.where("id between 700 and 720").select(col("k").as("j")))
          dataFrame(spark, KeepMatching(column(probe, "k"), column(build, "j"), logical(probe), logical(build)))
            .orderBy("id")
        }
        checkSame(query)
        val join = seen().filters.filter(_.getAs[String]("producer") == "join")
        assert(join.exists(_.getAs[String]("state") == "ready"), seen())
        if (adaptive == "true") assert(seen().rowsPruned > 0, seen())
      }
    }
    nothingIsLeft()
  }

  private def blocksRead(query: => DataFrame): Long = {
    checkSame(query)
    BlocksExec.read.reset()
    query.collect()
    BlocksExec.read.sum
  }

  test("a custom scan asks filters of a TopK, a min and a join what to read") {
    assert(blocksRead(blocks(50).orderBy("n").limit(10)) < 50)
    assert(blocksRead(audited(blocks(50)).where("n % 3 = 1").agg(min("n"))) < 50)
    // Two bounds of which a row has to pass only one are not for custom scans.
    assert(blocksRead(blocks(50).agg(min("n"), max("n"))) == 50)
    def few = table.where("id in (11, 12, 13)").select((col("id") * 100 + 5).as("j"))
    assert(blocksRead(blocks(50).join(broadcast(few), col("n") === col("j")).agg(sum("n"))) == 3)
    // Of a build side that reads more than the scan the filter might come late.
    def fewest = spark.range(11, 14).select((col("id") * 100 + 5).as("j"))
    withConf(shuffled)(assert(blocksRead(blocks(50).join(fewest, col("n") === col("j")).agg(sum("n"))) == 3))
    nothingIsLeft()
    eventually(assert(RunningTasks.live == 0))
  }

  test("a custom scan is told values one by one") {
    val n = AttributeReference("n", LongType)()
    val domain = KeyDomain.forType(LongType).toOption.get
    val filter = new ApiFilter(
      TopKRef(
        org.apache.spark.sql.execution.LocalTableScanExec(Seq(n), Nil, None),
        TopKSpec(domain, 1, ascending = true, nullsFirst = false, tiesFree = true)
      ),
      n,
      domain,
      ScanPlace(crossesExchange = false, Wait.No)
    )
    // Outside of a task a bound is not known.
    assert(filter.current.everythingPasses && filter.current.mayMatch(5L) && filter.current.mayMatch(null))
    assert(filter.current.values.isEmpty && filter.current.mayMatchBetween(null, 7L, nulls = true))
    intercept[IllegalArgumentException](filter.current.mayMatch("text"))
  }

  test("a custom scan is not told zeros and NaN one by one: they are several values") {
    def values(keys: Double*): Option[Seq[Any]] = {
      val domain = KeyDomain.forType(DoubleType).toOption.get
      val filter = UserForms.values(domain, keys.iterator.map(domain.fromInternal(_)), nulls = false, 100)
      new ApiColumnFilter(filter, domain, "x").values
    }
    assert(values(1.0, 2.0).map(_.toSet) == Some(Set(1.0, 2.0)))
    assert(values(0.0, 2.0).isEmpty && values(2.0, Double.NaN).isEmpty)
  }

  test("a DataSource V2 scan gets complete filters before it plans its partitions") {
    // Spark's own way to the same interface: it must not be what the test sees.
    withConf("spark.sql.optimizer.dynamicPartitionPruning.enabled" -> "false")(v2())
  }

  private def v2(): Unit = {
    def source = spark.read.format(classOf[ExampleSource].getName).load()
    def few = table.where("id in (2, 3, 7)").select((col("id") * 100 + 5).as("j"))
    def planned(query: => DataFrame): Int = {
      checkSame(query)
      ExampleSource.planned
    }
    assert(planned(source.join(broadcast(few), col("n") === col("j")).orderBy("n")) == 3)
    withConf(shuffled)(assert(planned(source.join(few, col("n") === col("j")).orderBy("n")) == 3))
    // With adaptive execution the join would be gone before the scan starts.
    withConf("spark.sql.adaptive.enabled" -> "false") {
      assert(planned(source.join(broadcast(few.where("j < 0")), col("n") === col("j")).agg(count(lit(1)))) == 0)
    }
    // Twice in one query, and again.
    def twice =
      source.as("a").join(source.as("b").join(broadcast(few), col("b.n") === col("j")), col("a.n") === col("b.n"))
    checkSame(twice.select("a.n", "b.text", "j").orderBy("n"))
    val again = source.join(broadcast(few), col("n") === col("j")).orderBy("n")
    assert(again.collect().toSeq == again.collect().toSeq)
    // The option that carries a hint goes through the source's own plans.
    Seq("NO_DYNAMIC_FILTER" -> 10, "DYNAMIC_FILTER" -> 3).foreach { case (hint, partitions) =>
      assert(planned(source.hint(hint).join(broadcast(few), col("n") === col("j")).orderBy("n")) == partitions)
    }
    // A bound is not complete before the partitions are planned, and no filter goes to columns it does not name.
    checkSame(source.orderBy("n").limit(3))
    assert(seen().reasons.exists(_.contains("the table example of DataSource V2 can be filtered by rows only")), seen())
    checkSame(source.join(broadcast(table.select(col("s").as("x"))), col("text") === col("x")))
    nothingIsLeft()
  }
}

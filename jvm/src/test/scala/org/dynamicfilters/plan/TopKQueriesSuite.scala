package org.dynamicfilters.plan

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.dynamicfilters.state.RunningTasks
import org.scalatest.funsuite.AnyFunSuite

/** Queries around a TopK: equal rows with and without filters, and the filter at work where it should be. */
class TopKQueriesSuite extends AnyFunSuite with SparkTests {

  private lazy val path: String = write(
    spark
      .range(0, 6000, 1, 3)
      .selectExpr(
        "id",
        "if(id % 13 = 1, null, (id * 37) % 6007) as k",
        "cast(id % 10 as int) as d",
        "repeat(md5(cast(id as string)), 4) as payload",
        "named_struct('a', id, 'b', array(id, id + 1)) as nested"
      ),
    "parquet.enable.dictionary" -> "false"
  )
  private def table: DataFrame = spark.read.parquet(path)

  /** @param skips whether the scan is sure to leave out rows, too
    */
  private def checkFiltered(query: => DataFrame, skips: Boolean = true): Unit = {
    checkSame(query)
    assert(seen().fired && (seen().skipped || !skips), seen())
    nothingIsLeft()
  }

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    table.createOrReplaceTempView("t")
  }

  test("a limit of 0 and an offset beyond all rows") {
    checkSame(spark.sql("select * from t order by k, id limit 0"))
    checkSame(spark.sql("select * from t order by k, id limit 5 offset 100000"))
    checkFiltered(spark.sql("select * from t order by k desc, id limit 5 offset 17"))
  }

  test("predicates of the query are evaluated early, without errors that Spark would not raise") {
    // Few rows pass, so that there is no bound to speak of.
    checkFiltered(
      spark.sql("select * from t where payload like '%abc%' order by k desc nulls last, id limit 20"),
      skips = false
    )
    withConf("spark.sql.ansi.enabled" -> "true") {
      checkFiltered(
        spark.sql("select * from t where d <> 0 and 100 / d > 20 and payload > '1' order by k desc, id limit 9"),
        skips = false
      )
    }
  }

  test("file metadata stays right when rows are skipped") {
    checkFiltered(
      table
        .select(col("k"), col("id"), col("payload"), col("_metadata.row_index"), col("_metadata.file_path"))
        .orderBy(desc("k"), col("id"))
        .limit(25)
    )
    checkFiltered(
      table
        .where("payload like '%00%'")
        .select(col("k"), col("id"), col("payload"), col("_metadata.row_index"))
        .orderBy(asc_nulls_last("k"), col("id"))
        .limit(25)
    )
    checkSame(table.select(col("k"), col("id"), input_file_name()).orderBy(desc("k"), col("id")).limit(25))
  }

  Seq(
    Seq(compiled),
    Seq("spark.sql.codegen.wholeStage" -> "false"),
    Seq("spark.sql.parquet.enableVectorizedReader" -> "false"),
    Seq(compiled, "spark.sql.codegen.maxFields" -> "2"),
    Seq(compiled, "spark.sql.columnVector.offheap.enabled" -> "true"),
    Seq("spark.sql.parquet.columnarReaderBatchSize" -> "7"),
    Seq("spark.sql.parquet.enableNestedColumnVectorizedReader" -> "false"),
    Seq("spark.sql.adaptive.enabled" -> "false"),
    Seq("spark.sql.parquet.filterPushdown" -> "false"),
    Seq("spark.dynamicFilters.lateMaterialization.enabled" -> "false"),
    Seq("spark.dynamicFilters.selectivity.giveUp" -> "0")
  ).foreach { settings =>
    test(s"the same rows with ${settings.map { case (k, v) => s"$k=$v" }.mkString(", ")}") {
      withConf(settings: _*) {
        // Spark's other reader leaves out nothing; of all columns some are nested.
        def skips(reader: String) = !settings.exists(_._1.endsWith(reader))
        checkFiltered(
          spark.sql("select * from t where payload > '3' order by k desc, id limit 11"),
          skips("VectorizedReader")
        )
        checkFiltered(
          spark.sql("select k, id, payload from t order by k nulls last, id limit 300"),
          skips(".enableVectorizedReader")
        )
      }
    }
  }

  test("groups have all of their rows, though the first row of each goes ahead of the others") {
    val rows = 12000
    val k = when(col("id") === 7, 0)
      .when(col("id") === 8, 51)
      .when(col("id") === 9, 52)
      .when(col("id") < rows || col("id") % 4 === 0, lit(53) + col("id") % 1000)
      .otherwise(col("id") % 4)
    val groups =
      spark.range(0, 3L * rows, 1, 1).select(k as "k", col("id"), sha2(col("id").cast("string"), 256) as "pad")
    val path = newPath()
    groups.write.option("parquet.block.row.count.limit", rows.toString).parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("groups")
    checkFiltered(spark.sql("select k, count(*), max(pad) from groups group by k order by k limit 3"))
    checkFiltered(spark.sql("select k, count(*), max(pad) from groups where id > 4 group by k order by k limit 3"))
    checkSame(
      spark.sql(
        "select k, id from (select *, dense_rank() over (order by k) r from groups) where r <= 3 order by id"
      )
    )
  }

  test("partition columns as key and beside it") {
    val p = newPath()
    table.withColumn("part", col("id") % 7).write.options(smallRowGroups).partitionBy("part").parquet(p)
    checkFiltered(spark.read.parquet(p).drop("nested").orderBy(desc("part"), col("id")).limit(9))
    checkFiltered(spark.read.parquet(p).orderBy(desc("k"), col("id")).limit(9))
  }

  test("bucketed tables keep their buckets") {
    table
      .drop("nested")
      .write
      .options(smallRowGroups)
      .bucketBy(3, "d")
      .sortBy("k")
      .format("parquet")
      .saveAsTable("bucketed")
    Seq("true", "false").foreach { claimed =>
      withConf("spark.sql.legacy.bucketedTableScan.outputOrdering" -> claimed) {
        checkFiltered(spark.sql("select * from bucketed order by k, id limit 9"))
        checkFiltered(spark.sql("select k from bucketed where d = 3 order by k limit 9"))
        checkFiltered(spark.sql("select k from bucketed order by k desc limit 9"))
      }
    }
  }

  test("a task that fails after it contributed is tried again and gives equal rows") {
    val fails = udf((id: Long) => TaskThatFails.at(id))
    def query = table.where(fails(col("id"))).orderBy(desc("k"), col("id")).limit(30)
    val expected = without { TaskThatFails.armed = false; query.collect().toSeq.map(SparkTestText.of) }
    Seq(5L, 1500L, 2900L, 5900L).foreach { id =>
      TaskThatFails.failOn = id
      TaskThatFails.armed = true
      assert(query.collect().toSeq.map(SparkTestText.of) == expected)
    }
    nothingIsLeft()
  }

  test("a query that fails and one that is cancelled leave nothing behind") {
    val fails = udf((id: Long) => if (id == 4000) throw new IllegalStateException("on purpose") else true)
    intercept[Exception](table.where(fails(col("id"))).orderBy(desc("k")).limit(3000).collect())
    nothingIsLeft()
    val slow = udf { (_: Long) => Thread.sleep(5); true }
    val sc = spark.sparkContext
    val t = new Thread(() => {
      sc.setJobGroup("slow", "cancelled", interruptOnCancel = true)
      try table.where(slow(col("id"))).orderBy(desc("k")).limit(3000).collect()
      catch { case _: Exception => }
      ()
    })
    t.start()
    eventually(assert(RunningTasks.liveScans > 0))
    sc.cancelJobGroup("slow")
    t.join(20000)
    assert(!t.isAlive)
    nothingIsLeft()
  }

  test("the same Dataset again, cached, in a subquery, in unions and as a table expression used twice") {
    val q = table.orderBy(desc("k"), col("id")).limit(12)
    val first = q.collect().toSeq
    assert(q.collect().toSeq == first)
    val cached = table.orderBy(desc("k"), col("id")).limit(12).cache()
    try {
      assert(cached.collect().toSeq == first && cached.collect().toSeq == first)
      checkSame(cached.orderBy("id").limit(3))
    } finally cached.unpersist(blocking = true)
    val shared = Seq(
      "select * from t where k >= (select min(k) from (select k from t order by k desc limit 4)) order by k, id",
      "(select k, id from t order by k desc, id limit 5) union all (select k, id from t order by k desc, id limit 5) " +
        "order by k, id",
      "with c as (select k, id from t order by k desc, id limit 6) " +
        "select a.k, b.id from c a join c b on a.id = b.id order by a.k"
    )
    withConf("spark.sql.adaptive.enabled" -> "false")(shared.foreach(q => checkFiltered(spark.sql(q))))
    val others = Seq(
      "select k, id from (select k, id from t where d = 1 union all select k, id + 100000 from t where d = 2) " +
        "order by k desc, id limit 7",
      "select t.k, t.id, payload, x from t join (select id as x from range(5)) on d = x " +
        "order by k desc, t.id, x limit 8",
      "select t.k, t.id, x from t left join (select id as x from range(5)) on d = x " +
        "order by k nulls last, t.id, x limit 8",
      "select t.k, t.id from t left anti join (select id as x from range(5)) on d = x order by k desc, t.id limit 8",
      "select k, id, e from t lateral view explode(array(1, 2)) as e order by k desc, id, e limit 8"
    )
    (shared ++ others).foreach(q => checkFiltered(spark.sql(q)))
  }

  private def reasonOf(query: DataFrame): Seq[String] = { query.collect(); seen().reasons }

  test("what stops a filter is told") {
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      assert(
        reasonOf(spark.sql("select * from t a join t b on a.id = b.id order by a.k limit 3"))
          .exists(_.contains("SortMergeJoin"))
      )
    }
    assert(reasonOf(spark.sql("select * from t order by abs(k) limit 3")).exists(_.contains("computed")))
    assert(reasonOf(table.sample(0.5, 1).orderBy("k").limit(3)).exists(_.contains("sample")))
    assert(reasonOf(table.withColumn("r", rand(1)).orderBy("k").limit(3)).exists(_.contains("deterministic")))
    assert(reasonOf(table.observe("o", count(lit(1))).orderBy("k").limit(3)).exists(_.contains("observed")))
    assert(
      reasonOf(spark.sql("select k, count(*) c from t group by k having c > 0 order by k limit 3"))
        .exists(_.contains("in the way"))
    )
    withConf("spark.dynamicFilters.topk.maxLimit" -> "2")(
      assert(reasonOf(spark.sql("select * from t order by k limit 3")).exists(_.contains("maxLimit")))
    )
  }

  test("switched off, the plan is Spark's own") {
    def nodes(df: DataFrame) = df.queryExecution.executedPlan.toString
    val plan = without(nodes(spark.sql("select * from t where payload > '3' order by k desc, id limit 11")))
    assert(!plan.contains("DynamicFilter") && !plan.contains("TopKFilter") && !plan.contains("dynamicfilters"))
    withConf("spark.dynamicFilters.topk.enabled" -> "false") {
      assert(!nodes(spark.sql("select * from t order by k limit 11")).contains("DynamicFilter"))
    }
  }
}

/** Throws once. */
object TaskThatFails {
  @volatile var armed = false
  @volatile var failOn = -1L
  def at(id: Long): Boolean = {
    if (armed && id >= failOn) {
      armed = false
      throw new IllegalStateException("on purpose, once")
    }
    true
  }
}

package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.scalatest.funsuite.AnyFunSuite

class NeverFailsSuite extends AnyFunSuite with SparkTests {
  private lazy val table = write(
    spark
      .range(0, 100)
      .selectExpr(
        "id AS k",
        "CAST(id AS INT) AS i",
        "id AS l",
        "CAST(id AS DOUBLE) AS f",
        "CAST(id AS DECIMAL(7, 2)) AS d",
        "CAST(id AS DECIMAL(38, 2)) AS wide",
        "CAST(id AS STRING) AS s",
        "CAST(date_add(DATE '2024-01-01', CAST(id AS INT)) AS DATE) AS t"
      )
  )

  private def plan(query: String): SparkPlan = withConf("spark.sql.adaptive.enabled" -> "false") {
    spark.read.parquet(table).createOrReplaceTempView("never_fails")
    spark.sql(query).queryExecution.sparkPlan
  }

  private def projected(e: String): Expression =
    plan(s"SELECT $e AS x FROM never_fails").collectFirst { case p: ProjectExec => p.projectList.head }.get

  test("expressions that have a value for everything") {
    Seq("i > 3", "coalesce(l, 0)", "f + 1", "d * 1.2", "d - coalesce(d, 0)", "CASE WHEN i = 1 THEN f END", "upper(s)")
      .foreach(e => assert(NeverFails(projected(e)), e))
    Seq("CAST(i AS BIGINT)", "CAST(i AS STRING)", "try_cast(s AS INT)", "year(t)", "f / 2D", "try_divide(l, l)", "-d")
      .foreach(e => assert(NeverFails(projected(e)), e))
  }

  test("expressions that may fail") {
    Seq("floor(f)", "round(f, 1000)", "-wide", "abs(CAST(d AS DECIMAL(36, 2)))", "s LIKE '%a%b%'")
      .foreach(e => assert(!NeverFails(projected(e)), e))
    Seq("i + 1", "l * 2", "100 DIV l", "f / f", "d / d", "wide * 2", "wide + wide", "-l", "abs(i)")
      .foreach(e => assert(!NeverFails(projected(e)), e))
    Seq(
      "CAST(s AS INT)",
      "CAST(l AS INT)",
      "CAST(f AS DECIMAL(7, 2))",
      "s RLIKE '^(a+)+$'",
      "raise_error(s)",
      "i + f / f"
    )
      .foreach(e => assert(!NeverFails(projected(e)), e))
  }

  test("without ANSI mode arithmetic and casts have a value, or NULL") {
    withConf("spark.sql.ansi.enabled" -> "false") {
      Seq("i + 1", "100 DIV l", "f / f", "wide * 2", "CAST(s AS INT)", "CAST(f AS DECIMAL(7, 2))")
        .foreach(e => assert(NeverFails(projected(e)), e))
    }
  }

  test("divisions by what is not zero") {
    Seq("f / nullif(f, 0)", "l / nullif(i, 0)", "CASE WHEN i = 0 THEN 0 ELSE f / i END", "IF(f > 0, 1 / f, NULL)")
      .foreach(e => assert(NeverFails(projected(e)), e))
    Seq(
      "CASE WHEN i IS NULL OR i = 0 THEN NULL ELSE i DIV i END",
      "CASE WHEN i = 0 THEN 1D WHEN f = 0 THEN 2D ELSE f / i / f END",
      "CASE WHEN d > 0 AND f < 0 THEN d / d / 2 + 1 / f END",
      "i % 7",
      "l % nullif(l, 0)"
    ).foreach(e => assert(NeverFails(projected(e)), e))
    Seq(
      "CASE WHEN i = 0 THEN f / i END",
      "CASE WHEN i > -1 THEN f / i END",
      "CASE WHEN i > 1 THEN f / i END",
      "CASE WHEN i <> 1 THEN f / i END",
      "CASE WHEN i <> 0 OR f > 1 THEN f / i END",
      "CASE WHEN i = 0 AND f > 1 THEN 1D ELSE f / i END",
      "CASE WHEN i >= 0 THEN f ELSE 1 / f END",
      "i <> 0 AND f / i > 2",
      "i = 0 OR f / i > 2",
      "s LIKE s",
      "CAST(array(t) AS ARRAY<TIMESTAMP>)",
      "f / nullif(f, 1)",
      "l DIV nullif(l, 0)",
      "(-9223372036854775807 - 1) DIV nullif(l, 0)",
      "CASE WHEN l + 1 <> 0 THEN l / (l + 1) END"
    ).foreach(e => assert(!NeverFails(projected(e)), e))
  }

  test("arithmetic of integers may overflow, whatever it is of") {
    Seq("CAST(i AS BIGINT) + 1", "year(t) * 100 + month(t)", "i % 10 + 1", "-CAST(i AS BIGINT)", "l % 10 + l")
      .foreach(e => assert(!NeverFails(projected(e)), e))
  }

  private def groupsMayLose(function: String): Boolean = {
    val aggregates = plan(s"SELECT k, $function AS x FROM never_fails GROUP BY k").collect {
      case a: BaseAggregateExec => a
    }
    assert(aggregates.nonEmpty)
    aggregates.forall(new ExcludedRows(isFiltered = true, Nil, Nil).withPartialGroups(_).isEmpty)
  }

  test("functions of groups that lose a part") {
    Seq(
      "count(*)",
      "min(s)",
      "sum(i)",
      "sum(l)",
      "collect_list(i)",
      "sum(f)",
      "sum(d)",
      "avg(d)",
      "avg(l)",
      "avg(d) * 1.2",
      "sum(i) / nullif(count(i), 0)",
      "round(avg(d), 2)",
      "bit_or(i)",
      "sort_array(collect_list(i))",
      "stddev(f)",
      "max_by(s, l)"
    )
      .foreach(f => assert(groupsMayLose(f), f))
    Seq(
      "skewness(f)",
      "sum(wide)",
      "avg(wide)",
      "sum(i) / count(i)",
      "sum(i) / count(*)",
      "sum(d) / sum(d)",
      "sum(i) + 1",
      "count(*) * 2",
      "sum(i) / count(*) FILTER (WHERE i > 3)",
      "sum(i) / count(DISTINCT i)",
      "count(*) * count(*)"
    )
      .foreach(f => assert(!groupsMayLose(f), f))
  }

  test("what is computed of a change above it is followed up to the producer") {
    def above(query: String): List[SparkPlan] =
      plan(query).collect { case p @ (_: ProjectExec | _: FilterExec) => p }.toList.reverse
    def mayFail(change: Set[String], query: String): Boolean = {
      val operators = above(query)
      val changed = operators.head.children.head.output.filter(a => change(a.name))
      new ExcludedRows(isFiltered = true, operators, Nil).failure(ExcludedRows.Change.of(changed)).isDefined
    }
    val outer = "SELECT 100 DIV c AS x FROM (SELECT /*+ REPARTITION(2) */ coalesce(l, 0) AS c, i FROM never_fails)"
    assert(mayFail(Set("l"), outer))
    assert(!mayFail(Set("i"), outer))
    // A row that stock Spark drops: all of its columns are new there.
    val dropped = "SELECT 100 DIV i AS x FROM (SELECT /*+ REPARTITION(2) */ * FROM never_fails WHERE l > 3)"
    assert(mayFail(Set("l"), dropped))
    assert(!mayFail(Set("f"), dropped))
  }
}

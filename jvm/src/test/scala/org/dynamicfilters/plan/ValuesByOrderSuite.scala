package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.scalatest.funsuite.AnyFunSuite

class ValuesByOrderSuite extends AnyFunSuite with SparkTests {

  /** Whether the rows of a query or its first column depend on the order in which rows come. */
  private def decide(query: String): Boolean =
    withConf("spark.sql.adaptive.enabled" -> "false", "spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      val plan = frame(query).repartition(3).queryExecution.executedPlan
      val exchange = plan.collectFirst { case e: ShuffleExchangeExec => e }.get
      ValuesByOrder.decide(exchange, AttributeSet(exchange.output.take(1)))
    }

  private def frame(query: String) = {
    spark
      .range(0, 1000)
      .selectExpr("id % 7 AS k", "id / 3D AS d", "CAST(id AS DECIMAL(7, 2)) AS x", "id AS n")
      .createOrReplaceTempView("by_order")
    spark.sql(query)
  }

  Seq(
    "a key that is a sum" -> "SELECT sum(d) AS s FROM by_order GROUP BY k",
    "a key that is computed of a sum" -> "SELECT CAST(s * 10 AS BIGINT) AS t FROM (SELECT sum(d) AS s FROM by_order GROUP BY k)",
    "a key that is a mean" -> "SELECT avg(d) AS s, k FROM by_order GROUP BY k",
    "a key of the row with the greatest value" -> "SELECT max_by(n, d) AS s FROM by_order GROUP BY k",
    "a key that is a mean of integers, which Spark sums up as DOUBLE" -> "SELECT avg(n) AS s FROM by_order GROUP BY k",
    "a least value, which may be either zero" -> "SELECT min(d) AS s FROM by_order GROUP BY k",
    "a least struct of such values" -> "SELECT min(named_struct('a', d)) AS s FROM by_order GROUP BY k",
    "a greatest array of such values" -> "SELECT max(array(d)) AS s FROM by_order GROUP BY k",
    "a least string of a collation" -> "SELECT min(CAST(k AS STRING) COLLATE UTF8_LCASE) AS s FROM by_order GROUP BY n",
    "a group of strings of a collation" ->
      "SELECT ascii(s) AS a FROM (SELECT CAST(k AS STRING) COLLATE UTF8_LCASE AS s FROM by_order) GROUP BY s",
    "a sum that overflows to NULL" -> "SELECT k FROM by_order GROUP BY k HAVING try_sum(n) IS NOT NULL",
    "a sum of decimals that overflows" ->
      "SELECT k FROM by_order GROUP BY k HAVING sum(CAST(x AS DECIMAL(30, 2))) IS NOT NULL",
    "a mean of decimals, which Spark sums up as DOUBLE" ->
      "SELECT k FROM by_order GROUP BY k HAVING avg(CAST(x AS DECIMAL(10, 2))) > 1",
    "a FILTER clause" ->
      """SELECT max(n) FILTER (WHERE s > 1) AS m FROM
        |(SELECT k, n, sum(d) AS s FROM by_order GROUP BY k, n) GROUP BY k""".stripMargin,
    "a FILTER clause of something distinct" ->
      """SELECT count(DISTINCT n) FILTER (WHERE s > 1) AS m, max(k) FROM
        |(SELECT k, n, sum(d) AS s FROM by_order GROUP BY k, n) GROUP BY k""".stripMargin,
    "a HAVING" -> "SELECT k, n FROM (SELECT k, sum(d) AS s, count(*) AS n FROM by_order GROUP BY k) WHERE s > 10",
    "a group" -> "SELECT count(*) AS c, s FROM (SELECT k, sum(d) AS s FROM by_order GROUP BY k) GROUP BY s",
    "the greatest sum" -> "SELECT max(s) AS m FROM (SELECT k, n, sum(d) AS s FROM by_order GROUP BY k, n) GROUP BY k",
    "a join by a sum" ->
      "SELECT a.k FROM (SELECT k, sum(d) AS s FROM by_order GROUP BY k) a JOIN by_order b ON a.s = b.d",
    "a sum in a branch of a union" ->
      "SELECT d FROM by_order UNION ALL SELECT sum(d) AS s FROM by_order GROUP BY k",
    "a sum that is used again" ->
      """WITH g AS (SELECT /*+ REPARTITION(2) */ sum(d) AS s, k FROM by_order GROUP BY k)
        |SELECT a.s, b.k FROM g a JOIN g b ON a.k = b.k""".stripMargin,
    "an element of an array of sums" -> "SELECT explode(array(s)) AS e FROM (SELECT sum(d) AS s FROM by_order GROUP BY k)"
  ).foreach { case (name, query) => test(s"order decides: $name")(assert(decide(query))) }

  Seq(
    "beside a sum that is handed on" -> "SELECT k, sum(d) AS s FROM by_order GROUP BY k",
    "of a sum that is sorted by" -> "SELECT k, s FROM (SELECT k, sum(d) AS s FROM by_order GROUP BY k) SORT BY s",
    "of exact sums" -> "SELECT sum(x) AS s, sum(n) AS m FROM by_order GROUP BY k HAVING sum(n) > 10 AND avg(x) > 1",
    "of least and greatest" -> "SELECT min(n) AS s FROM by_order GROUP BY k HAVING max(x) > 10",
    "of a mean of small integers" -> "SELECT k FROM by_order GROUP BY k HAVING avg(CAST(k AS SMALLINT)) > 2",
    "of a group of numbers, which Spark makes one" -> "SELECT d AS c FROM by_order GROUP BY d",
    "of joins by other columns" ->
      "SELECT a.k, a.s FROM (SELECT k, sum(d) AS s FROM by_order GROUP BY k) a JOIN by_order b ON a.k = b.k",
    "of a broadcast" ->
      """SELECT /*+ BROADCAST(a) */ a.s FROM (SELECT k, sum(d) AS s FROM by_order GROUP BY k) a
        |JOIN by_order b ON a.k = b.k WHERE a.s > 10""".stripMargin,
    "of a subquery, which runs once" -> "SELECT k FROM by_order WHERE d > (SELECT avg(d) FROM by_order)"
  ).foreach { case (name, query) => test(s"order does not decide: $name")(assert(!decide(query))) }
}

package org.dynamicfilters.plan

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{
  AdaptiveSparkPlanExec, BroadcastQueryStageExec, QueryStageExec, ShuffleQueryStageExec
}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, Exchange, ShuffleExchangeExec}
import org.scalatest.funsuite.AnyFunSuite
import org.dynamicfilters.reasons.Reasons

/** Plans as adaptive execution makes them while some of their stages run. */
class NextStagesSuite extends AnyFunSuite with SparkTests {
  private lazy val large = write(spark.range(0, 5000).selectExpr("id AS k", "id % 7 AS l", "id AS v"))
  private lazy val small = write(spark.range(0, 50).selectExpr("id AS j", "id AS w"))

  private def initial(query: String): SparkPlan = {
    spark.read.parquet(large).createOrReplaceTempView("large")
    spark.read.parquet(small).createOrReplaceTempView("small")
    spark.sql(query).queryExecution.executedPlan.collectFirst { case a: AdaptiveSparkPlanExec => a.executedPlan }.get
  }

  private def stage(e: Exchange, ended: Boolean): QueryStageExec = {
    val made = e match {
      case b: BroadcastExchangeExec => BroadcastQueryStageExec(0, b, b.canonicalized)
      case s: ShuffleExchangeExec => ShuffleQueryStageExec(0, s, s.canonicalized)
    }
    // Spark's own package sees it.
    val result = classOf[QueryStageExec].getMethod("resultOption").invoke(made)
    if (ended) result.asInstanceOf[AtomicReference[Option[Any]]].set(Some(()))
    made
  }

  /** The plan with stages in place of some of its lowest exchanges, numbered from left to right. */
  private def started(plan: SparkPlan, ended: PartialFunction[Int, Boolean]): SparkPlan = {
    var number = -1
    plan.transformUp {
      case e: Exchange if !e.child.exists(p => p.isInstanceOf[Exchange] || p.isInstanceOf[QueryStageExec]) =>
        number += 1
        ended.lift(number).fold[SparkPlan](e)(stage(e, _))
    }
  }

  private val star = "SELECT /*+ BROADCAST(a, b) */ sum(v) FROM large JOIN small a ON k = a.j JOIN small b ON l = b.j"
  private val shuffled = "SELECT /*+ SHUFFLE_HASH(small) */ v, w FROM large JOIN small ON k = j WHERE w < 40"

  test("while one of two small tables is read nothing starts") {
    val plan = without(initial(star))
    assert(!NextStages.hasNoEffect(plan))
    assert(NextStages.hasNoEffect(started(plan, { case n => n == 0 })))
    assert(NextStages.hasNoEffect(started(plan, { case n => n == 1 })))
    assert(!NextStages.hasNoEffect(started(plan, { case _ => true })))
  }

  test("what has not been started yet matters, beside a stage that runs") {
    val plan = without(initial(star))
    Seq(0, 1).foreach { n =>
      assert(!NextStages.hasNoEffect(started(plan, { case `n` => false })))
      assert(!NextStages.hasNoEffect(started(plan, { case `n` => true })))
    }
  }

  test("a plan matters as long as a stage that runs waits for a filter that it might have lost") {
    assert(NextStages.hasNoEffect(started(without(initial(shuffled)), { case _ => false })))
    val running = started(initial(shuffled), { case _ => false })
    val waiting = PlannedFilters.waitedFor(running)
    assert(waiting.nonEmpty)
    assert(!NextStages.hasNoEffect(running))
    waiting.foreach(_.state.disable(Reasons.QueryEnded))
    assert(NextStages.hasNoEffect(running))
  }
}

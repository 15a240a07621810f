package org.dynamicfilters.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.dynamicfilters.api.{FilterProducer, NeededRows}
import org.dynamicfilters.exchange.{ExchangeCounter, ExchangeCounters}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.state.{Producer, TaskFilters}
import org.scalatest.funsuite.AnyFunSuite

class PlanningFailuresSuite extends AnyFunSuite with SparkTests {
  import PlanningFailuresSuite._

  private var id = -7L

  private def failing(e: Throwable): Unit = {
    val plan = FailingExec(e, without(spark.range(10).queryExecution.sparkPlan))
    val sc = spark.sparkContext
    // A report keeps the first reason.
    id -= 1
    val before = ExchangeCounters.instance(ExchangeCounter.failures)
    sc.setLocalProperty(TaskFilters.ExecutionIdProperty, id.toString)
    try assert(new DynamicFilterRule(adaptive = false)(plan) eq plan)
    finally sc.setLocalProperty(TaskFilters.ExecutionIdProperty, null)
    assert(ExchangeCounters.instance(ExchangeCounter.failures) > before)
    val found = QueryReports.instance.find(id).toSeq.flatMap(_.rejected)
    assert(
      found.exists(r => r.producer == Producer.topk && r.reason == Reasons.Failed(e, "planning")),
      found
    )
  }

  test("a failure leaves the plan as it is, counts and gives a reason") {
    failing(new IllegalStateError)
    failing(new NoSuchMethodError("of another Spark"))
    failing(new StackOverflowError)
  }
}

private object PlanningFailuresSuite {
  final class IllegalStateError extends RuntimeException

  /** An operator of somebody else that fails when it is asked. */
  final case class FailingExec(e: Throwable, child: SparkPlan) extends UnaryExecNode with FilterProducer {
    override def neededRows: Seq[NeededRows] = throw e
    override def output: Seq[Attribute] = child.output
    override protected def doExecute(): RDD[InternalRow] = child.execute()
    override protected def withNewChildInternal(newChild: SparkPlan): FailingExec = copy(child = newChild)
  }
}

package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Dataset, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{QueryExecution, SQLExecution, SparkPlan, SparkPlanInfo}
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate
import org.apache.spark.util.LazyTry

/** What Spark keeps of a query that it has planned. */
object QueryAccess {
  private val planRdd = SparkAccess.field(classOf[SparkPlan], "executeRDD")
  private val queryRdd = SparkAccess.field(classOf[QueryExecution], "lazyToRdd")

  /** Replaces the RDDs that Spark keeps of a plan and its query. The new ones are made when they are first used. */
  def replaceRdds(plan: SparkPlan, ofPlan: => RDD[InternalRow], query: QueryExecution)(
      ofQuery: => RDD[InternalRow]
  ): Unit = {
    planRdd.set(plan, LazyTry(ofPlan))
    queryRdd.set(query, LazyTry(ofQuery))
  }

  /** Plans a query anew, runs it as one SQL execution and drops its rows.
    *
    * Does not write to a `noop` sink: that is another plan, which table formats may refuse, and another query for the
    * optimizer. A query of few rows is collected. Spark then plans a TopK without the exchange that other actions put
    * into `TakeOrderedAndProjectExec`; below that exchange a running scan would not follow its filter. TPC-H's orders
    * by price, LIMIT 10, took 280 ms with the exchange and 227 ms by `collect()`.
    */
  def run(session: SparkSession, query: LogicalPlan): Unit = {
    val execution = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.executePlan(query)
    SQLExecution.withNewExecutionId(execution, Some("analyze")) {
      if (execution.optimizedPlan.maxRows.exists(_ <= FewRows)) execution.executedPlan.executeCollect()
      else execution.executedPlan.execute().foreach(_ => ())
    }
  }

  private val FewRows = 10000L

  /** The analyzed query. A command has run when its Dataset was made, so this is then the plan of its result. */
  def logicalPlan(query: Dataset[_]): LogicalPlan =
    query.asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution.commandExecuted

  /** Shows the running plan in Spark's UI. */
  def postPlan(sc: SparkContext, executionId: Long, query: QueryExecution, plan: SparkPlan): Unit =
    sc.listenerBus.post(
      SparkListenerSQLAdaptiveExecutionUpdate(executionId, query.simpleString, SparkPlanInfo.fromSparkPlan(plan))
    )
}

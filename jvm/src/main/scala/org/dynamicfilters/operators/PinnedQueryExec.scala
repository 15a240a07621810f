package org.dynamicfilters.operators

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{QueryExecution, SQLExecution, SQLExecutionRDD, SparkPlan}
import org.apache.spark.sql.execution.dynamicfilters.QueryAccess
import org.apache.spark.sql.execution.metric.SQLMetric
import org.dynamicfilters.state.{Executions, RecentIds, TaskFilters}
import org.dynamicfilters.user.{DynamicFilterPredicate, UserFilters}

/** The root of a query with user filters. Makes each execution use the generations that are in force when it starts.
  *
  * Spark plans a DataFrame once for all its executions, and reuses shuffle files and broadcasts. This node compares the pinned
  * generations with the current ones at the start of each execution, and plans the query again if they differ. Otherwise it
  * passes all calls to its child.
  *
  * Does so only at the root of an executed plan. Inside another plan (cached data, a subquery) it passes all calls to its child.
  */
case class PinnedQueryExec(first: SparkPlan) extends SparkPlan {
  @transient @volatile private var now: SparkPlan = first
  @transient @volatile private var normalized: LogicalPlan = _
  @transient private lazy val begun, shown = new RecentIds(most = 1000)

  // Key of the plans that executions hold.
  @transient private lazy val plans = new Object

  /** The newest plan of the query. In a task (expressions bring the plans of their subqueries along), the first plan. */
  def current: SparkPlan = if (now == null) first else now

  // Replaced when the query is planned again, so that Spark shows the plan that ran.
  override def children: Seq[SparkPlan] = Seq(current)
  override def nodeName: String = "PinnedFilters"
  override def output: Seq[Attribute] = first.output
  override def outputPartitioning: Partitioning = current.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = current.outputOrdering
  override protected def doCanonicalize(): SparkPlan = first.canonicalized
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): SparkPlan =
    PinnedQueryExec.over(newChildren.head)

  /** The running query, if this node is the root of its plan. */
  private def executing: Option[QueryExecution] =
    TaskFilters
      .executionId(sparkContext)
      .flatMap(id => Option(SQLExecution.getQueryExecution(id)))
      .filter(_.executedPlan eq this)

  /** Plans the query again if its pinned generations are outdated, once at the start of each execution (Spark Connect calls
    * `metrics` at the end too). After a failure the next call tries again.
    *
    * @return the plan of this execution; others in other threads may have other plans
    */
  private def refresh(): SparkPlan = (for {
    id <- TaskFilters.executionId(sparkContext)
    query <- executing
  } yield synchronized {
    if (!begun.contains(id)) {
      if (normalized == null) normalized = query.normalized
      val outdated = DynamicFilterPredicate.pinnedIn(normalized).exists { p =>
        !UserFilters.current(p.sessionId, p.name).exists(p.pin.contains)
      }
      // Not for batches of a stream, which have a subclass: Spark plans them right before execution, with their state.
      if (outdated && query.getClass == classOf[QueryExecution]) planAnew(query)
      begun.add(id)
      Executions.instance.attach(id, plans)(now)
    }
    ranIn(id).getOrElse(now)
  }).getOrElse(now)

  /** The plan of a running execution. */
  def ranIn(id: Long): Option[SparkPlan] = Executions.instance.find[SparkPlan](id, plans)

  private def planAnew(query: QueryExecution): Unit =
    try {
      val fresh = query.sparkSession.sessionState.executePlan(query.commandExecuted)
      now = fresh.executedPlan match {
        case p: PinnedQueryExec => p.first
        case other => other
      }
      normalized = fresh.normalized
      forgetRdds(query, doExecute())
    } catch {
      // Spark does not expect failures here everywhere, so executions that have begun keep their plan.
      case NonFatal(e) =>
        forgetRdds(query, TaskFilters.executionId(sparkContext).flatMap(ranIn).getOrElse(throw e).execute())
        throw e
    }

  /** Replaces the RDDs that Spark caches in the plan and in the query. */
  private def forgetRdds(query: QueryExecution, fresh: => RDD[InternalRow]): Unit =
    QueryAccess.replaceRdds(this, fresh, query)(new SQLExecutionRDD(execute(), query.sparkSession.sessionState.conf))

  /** Sends Spark's UI the plan that runs, if it differs from the first. */
  private def show(): Unit = for {
    query <- executing
    id <- TaskFilters.executionId(sparkContext)
    plan <- ranIn(id)
    if plan ne first
    isNew = synchronized {
      val is = !shown.contains(id)
      shown.add(id)
      is
    }
    if isNew
  } QueryAccess.postPlan(sparkContext, id, query, PinnedQueryExec.over(plan))

  /** Spark's first call at the start of each execution, also if it uses only the query's RDD. */
  override def metrics: Map[String, SQLMetric] = {
    refresh()
    Map.empty
  }

  /** Spark's first call in an action. */
  override def resetMetrics(): Unit = {
    refresh()
    show()
    super.resetMetrics()
  }

  override protected def doExecute(): RDD[InternalRow] = {
    show()
    now.execute()
  }

  override def executeCollect(): Array[InternalRow] = refresh().executeCollect()
  override def executeToIterator(): Iterator[InternalRow] = refresh().executeToIterator()
  override def executeTake(n: Int): Array[InternalRow] = refresh().executeTake(n)
  override def executeTail(n: Int): Array[InternalRow] = refresh().executeTail(n)
}

object PinnedQueryExec {
  def over(plan: SparkPlan): PinnedQueryExec = Tagged(new PinnedQueryExec(plan), plan)
}

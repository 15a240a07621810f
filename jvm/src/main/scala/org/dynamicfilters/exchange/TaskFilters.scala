package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.spark.TaskContext

/** The filters of the tasks that run in this process: what links a producer and the scans below it in one task.
  *
  * Entries live from the first use in a task to the task's completion.
  */
object TaskFilters {

  /** Spark's local property that carries the SQL execution id into tasks. Without it no filter applies (contract 4). */
  val ExecutionIdProperty = "spark.sql.execution.id"

  private val tasks = new ConcurrentHashMap[Long, mutable.Map[(Long, Long), Option[TaskTopK]]]()

  /** The SQL execution that the task works for. */
  def executionId(context: TaskContext): Option[Long] =
    Option(context.getLocalProperty(ExecutionIdProperty)).flatMap(_.toLongOption)

  /** This attempt's part in the TopK, made by the first caller of the task.
    *
    * @param run
    *   see [[FilterRef.nextRun]]
    * @return
    *   None where the task has no execution id or the execution has ended
    */
  def topK(context: TaskContext, ref: FilterRef, run: Long): Option[TaskTopK] = {
    val ofTask = {
      val known = tasks.get(context.taskAttemptId())
      if (known != null) known else register(context)
    }
    ofTask.getOrElseUpdate(
      (ref.id, run),
      for {
        execution <- executionId(context)
        shared <- LocalExchange.instance.topK(execution, ref.id, run, ref.spec)
      } yield TaskTopK(shared, context.partitionId(), context.taskAttemptId())
    )
  }

  private def register(context: TaskContext): mutable.Map[(Long, Long), Option[TaskTopK]] = {
    val fresh = mutable.HashMap.empty[(Long, Long), Option[TaskTopK]]
    tasks.put(context.taskAttemptId(), fresh)
    val execution = executionId(context)
    execution.foreach(LocalExchange.instance.enter)
    context.addTaskCompletionListener[Unit] { _ =>
      tasks.remove(context.taskAttemptId())
      execution.foreach(LocalExchange.instance.leave)
    }
    fresh
  }

  /** Tasks with entries; for tests of the life cycle. */
  def liveTasks: Int = tasks.size
}

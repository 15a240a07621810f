package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext

/** A filtered scan in one task. */
trait ScanInTask extends AutoCloseable

/** What the tasks of this process hold, each from its first filter to its completion: the parts of its operators find each
  * other here, for nothing of an execution is in the closures that Spark keeps between executions of a plan.
  */
object RunningTasks {
  // By the task itself: ids begin anew with each context, and tasks of one that was stopped may still run.
  private val tasks = new ConcurrentHashMap[TaskContext, Holder]()

  /** Of a task, made by whoever asks first. */
  def of(context: TaskContext): Holder = {
    val known = tasks.get(context)
    if (known != null) known
    else {
      var isNew = false
      val task = tasks.computeIfAbsent(context, _ => { isNew = true; new Holder })
      if (isNew) {
        val execution = TaskFilters.executionId(context)
        // First, so that faults happen when everything else of the task has completed: Spark calls the last listener first.
        execution.foreach(TestHooks.current.taskStarts(context, _))
        execution.foreach(Executions.instance.enter)
        context.addTaskCompletionListener[Unit] { _ =>
          tasks.remove(context)
          try task.close()
          finally execution.foreach(Executions.instance.leave)
        }
      }
      task
    }
  }

  def find(context: TaskContext): Option[Holder] = Option(tasks.get(context))

  /** Tasks that hold something. */
  def live: Int = tasks.size

  def liveScans: Int = tasks.values.asScala.map(_.all[ScanInTask].size).sum
}

package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext

/** A filtered scan in one task. */
trait ScanInTask extends AutoCloseable

/** A [[Holder]] for each task of this process, from its first filter to its completion. Its operators find each other
  * here, because closures that Spark keeps between executions of a plan must not hold state of one (contract 4).
  */
object RunningTasks {
  // Not by task id: each SparkContext starts with 0, and tasks of a stopped one may still run.
  private val tasks = new ConcurrentHashMap[TaskContext, Holder]()

  /** The task's holder, made at the first call. */
  def of(context: TaskContext): Holder = {
    val known = tasks.get(context)
    if (known != null) known
    else {
      var isNew = false
      val task = tasks.computeIfAbsent(context, _ => { isNew = true; new Holder })
      if (isNew) {
        val execution = TaskFilters.executionId(context)
        // First, so that injected faults happen after all other completion listeners: Spark calls the last one first.
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

  /** Number of tasks with a holder. */
  def live: Int = tasks.size

  def liveScans: Int = tasks.values.asScala.map(_.all[ScanInTask].size).sum
}

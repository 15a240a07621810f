package org.dynamicfilters.exchange

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess

/** The snapshots that tasks of this process are given. */
object TaskSnapshots {

  /** Whether what the running task computes may end in a shuffle, so that it must be the same in every attempt.
    *
    * Spark does not tell a task of what kind it is, but its stack does. Whatever is computed on another thread (rows for a
    * Python worker, say) counts as going into a shuffle: then filters are fixed though they need not be.
    */
  def areNeeded: Boolean = !stack.walk[Boolean](_.anyMatch(_.getClassName == ResultTask))

  private val ResultTask = "org.apache.spark.scheduler.ResultTask"
  private val stack = StackWalker.getInstance()

  /** The schedule of a partition, fixed by the attempt that asks first.
    *
    * @param newFrom
    *   None for an attempt that starts; else from which place on it could use newer filters
    * @return
    *   None if the driver did not answer: the task goes on with what it has, and has to say so with its result
    *   ([[SnapshotUse]])
    */
  def ask(
      context: TaskContext,
      table: SnapshotsRef,
      partition: Int,
      newFrom: Option[ReadPlace] = None
  ): Option[SnapshotSchedule] = {
    val execution = TaskFilters.executionId(context)
    val attempt = context.taskAttemptId()
    if (RpcAccess.isDriver)
      Snapshots.find(table.id).map { t =>
        val entries = t.asked(partition, attempt, newFrom, execution)
        SnapshotSchedule(entries, entries.map(e => e.number -> t.snapshot(e.number).filters).toMap - 0)
      }
    else if (!TaskFilters.shares(context)) None
    else
      ExecutorExchange.snapshots(
        Message.SnapshotRequest(execution.getOrElse(-1L), table.id, partition, attempt, newFrom),
        table
      )
  }
}

/** Which snapshots a partition is computed with.
  *
  * @param snapshots
  *   by number, but for 0, which travelled with the task
  */
final case class SnapshotSchedule(
    entries: Vector[ScheduleEntry],
    snapshots: Map[Int, IndexedSeq[SnapshotFilter]]
)

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

  /** The snapshot of a partition.
    *
    * @return
    *   None if the driver did not answer: the task uses what travelled with it, and has to say so with its result
    *   ([[SnapshotUse]])
    */
  def take(context: TaskContext, table: SnapshotsRef, partition: Int): Option[Snapshot] = {
    val execution = TaskFilters.executionId(context)
    if (RpcAccess.isDriver) Snapshots.find(table.id).map(_.take(partition, execution))
    else if (!TaskFilters.shares(context)) None
    else ExecutorExchange.snapshot(execution, table, partition)
  }
}

package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.ControlThrowable

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.state.{ReadPlace, ScheduleEntry, Snapshots, SnapshotsRef, TaskFilters}

/** The snapshots that tasks of this process are given, by the rule of [[Snapshots]]. */
object TaskSnapshots {

  /** Whether what the running task computes may end in a shuffle, so that the rule of [[Snapshots]] holds.
    *
    * Spark does not tell a task of what kind it is, but its stack does. Whatever is computed on another thread (rows for a
    * Python worker, say) counts as going into a shuffle: then filters are fixed though they need not be. So do rows that become
    * cached blocks, which outlive the task: a block that is lost may be computed again by a task of the other kind.
    */
  def areNeeded: Boolean = stack.walk[Boolean] { frames =>
    val found = frames.iterator.asScala.map(_.getClassName).filter(Set(ResultTask, BlockManager)).toSet
    !found(ResultTask) || found(BlockManager)
  }

  private val ResultTask = "org.apache.spark.scheduler.ResultTask"
  private val BlockManager = "org.apache.spark.storage.BlockManager"
  private val stack = StackWalker.getInstance()

  /** Whether the task is the first attempt of its partition for certain. Where a stage runs again, some of its tasks may still be
    * running from before.
    */
  def isFirst(context: TaskContext, table: SnapshotsRef): Boolean =
    context.attemptNumber() == 0 && context.stageAttemptNumber() == 0 && !table.wasUsed

  /** The schedule of a partition, fixed by the attempt that asks first.
    *
    * @param newFrom
    *   None for an attempt that starts; else from which place on it could use newer filters
    * @return
    *   None if the driver did not answer a first attempt, which then has to tell what it uses
    *   ([[org.dynamicfilters.state.SnapshotUse]])
    */
  def ask(
      context: TaskContext,
      table: SnapshotsRef,
      partition: Int,
      newFrom: Option[ReadPlace] = None
  ): Option[Vector[ScheduleEntry]] = {
    val execution = TaskFilters.executionId(context)
    val attempt = context.taskAttemptId()
    val first = isFirst(context, table)
    if (RpcAccess.isDriver)
      Snapshots.find(table.id).map(_.asked(partition, attempt, first, newFrom, execution))
    else if (!table.isShared) None
    else {
      val request =
        Message.SnapshotRequest(execution.getOrElse(-1L), table.id, partition, attempt, first, newFrom)
      val answer = ExecutorExchange.snapshots(request, table)
      if (answer.isEmpty && newFrom.isEmpty && !first)
        throw new SnapshotUnavailable("the driver does not say with which filters an earlier attempt was computed")
      answer
    }
  }
}

/** An attempt cannot keep to the rule of [[Snapshots]]. Not an exception that is caught where filters fail open. */
final class SnapshotUnavailable(message: String) extends ControlThrowable(message)

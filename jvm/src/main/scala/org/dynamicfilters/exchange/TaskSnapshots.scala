package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.ControlThrowable

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.state.{SnapshotFilter, Snapshots, SnapshotsRef, TaskFilters}

/** Gets the snapshot of a task's partition, by the rule of [[Snapshots]]. */
object TaskSnapshots {

  /** Whether the output of the running task must be fixed (contract 8), because it may go into a shuffle.
    *
    * Spark does not tell a task its kind, but the call stack shows it. Two cases count as going into a shuffle:
    *   - Rows computed on another thread, for example for a Python worker. Its stack does not show the task.
    *   - Rows that become cached blocks. A lost block may be computed again by a task of the other kind.
    */
  def outputMustBeFixed: Boolean = stack.walk[Boolean] { frames =>
    val found = frames.iterator.asScala.map(_.getClassName).filter(Set(ResultTask, BlockManager)).toSet
    !found(ResultTask) || found(BlockManager)
  }

  private val ResultTask = "org.apache.spark.scheduler.ResultTask"
  private val BlockManager = "org.apache.spark.storage.BlockManager"
  private val stack = StackWalker.getInstance()

  /** Whether the task is certainly the first attempt of its partition. If a stage runs again, tasks of its earlier
    * attempt may still run.
    */
  private def isFirst(context: TaskContext, table: SnapshotsRef): Boolean =
    context.attemptNumber() == 0 && context.stageAttemptNumber() == 0 && !table.wasUsed

  /** The snapshot of a partition, fixed by the attempt that asks first. */
  def ofPartition(context: TaskContext, table: SnapshotsRef, partition: Int): IndexedSeq[SnapshotFilter] =
    if (!table.mayChange) table.first
    else {
      val first = isFirst(context, table)
      ask(context, table, partition, first).getOrElse {
        if (table.isShared && !first)
          throw new SnapshotUnavailable("the driver does not say which filters an earlier attempt used")
        table.usedFirst.add(partition)
        table.first
      }
    }

  private def ask(
      context: TaskContext,
      table: SnapshotsRef,
      partition: Int,
      isFirst: Boolean
  ): Option[IndexedSeq[SnapshotFilter]] = {
    val execution = TaskFilters.executionId(context)
    if (RpcAccess.isDriver) Snapshots.find(table.id).map(_.ofPartition(partition, isFirst, execution))
    else if (!table.isShared) None
    else {
      val id = execution.getOrElse(MessageCodec.NoExecution)
      ExecutorExchange.snapshot(MessageCodec.snapshotRequest(id, table.id, partition, isFirst), table)
    }
  }
}

/** An attempt cannot keep to the rule of [[Snapshots]]. A ControlThrowable: code that fails open does not catch it. */
final class SnapshotUnavailable(message: String) extends ControlThrowable(message)

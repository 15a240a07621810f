package org.dynamicfilters.testing

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.FaultsAccess
import org.dynamicfilters.state.{Executions, TopKState}

/** A task that fails because a test wants it to. */
final class InjectedFault(message: String) extends RuntimeException(message)

/** Faults of tasks. They happen when a task completes: then it has contributed all it knows, and nobody has its rows yet.
  *
  * First attempts only, so that every query ends.
  *
  * @param ownProcess whether executors are processes of their own, which may be killed
  */
private[testing] final class TaskFaults(faults: Faults, executionId: Long, ledger: FaultLedger, ownProcess: Boolean)
    extends Logging {
  import FaultCounter._

  /** Registered before those listeners that contribute, hence called after them: Spark calls the last one first. */
  def watch(context: TaskContext): Unit =
    if (context.attemptNumber() == 0 && context.stageAttemptNumber() == 0)
      context.addTaskCompletionListener[Unit](c => if (!c.isFailed() && !c.isInterrupted()) completed(c))

  private def completed(context: TaskContext): Unit = {
    // Stages have other numbers each time.
    val task = context.partitionId().toString
    val spec = faults.spec
    if (ownProcess && spec.killedExecutors > 0 && (!spec.killBest || holdsBest(context))) kill()
    if (faults.isSlow(task)) slow(spec.slowMillis)
    if (faults.losesShuffle(task) && FaultsAccess.removeShuffleFiles(context.taskAttemptId()))
      ledger.note(faultShuffleRemoved)
    if (faults.fails(task)) {
      ledger.note(faultTaskFailed)
      throw new InjectedFault(s"task $task fails after it has contributed: a fault that a test injects")
    }
  }

  private def holdsBest(context: TaskContext): Boolean =
    Executions.instance
      .find(executionId)
      .exists(_.all[TopKState].map(_.bound).exists(b => !b.isNone && b.partition == context.partitionId()))

  private def kill(): Unit = {
    // What the task contributed should be on its way.
    Thread.sleep(TaskFaults.LeaveMillis)
    if (ledger.claim(faultExecutorKilled, executionId, faults.spec.killedExecutors)) {
      logWarning("Dynamic filters: this executor ends now: a fault that a test injects")
      Runtime.getRuntime.halt(TaskFaults.ExitCode)
    }
  }

  private def slow(millis: Long): Unit = {
    ledger.note(faultTaskSlow)
    // Interrupted when a copy of the task was faster.
    try Thread.sleep(millis)
    catch { case _: InterruptedException => Thread.currentThread().interrupt() }
  }
}

private object TaskFaults {
  val LeaveMillis = 150L
  val ExitCode = 86
}

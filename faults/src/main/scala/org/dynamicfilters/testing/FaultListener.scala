package org.dynamicfilters.testing

import org.apache.spark.{ExceptionFailure, FetchFailed}
import org.apache.spark.scheduler._

/** Counts what Spark made of faults, so that tests can assert that they happened. */
private[testing] final class FaultListener(ledger: FaultLedger) extends SparkListener {
  import FaultCounter._

  override def onTaskEnd(task: SparkListenerTaskEnd): Unit = {
    task.reason match {
      case _: FetchFailed => ledger.note(seenFetchFailures)
      case _: ExceptionFailure => ledger.note(seenTaskFailures)
      case _ =>
    }
    if (task.taskInfo != null && task.taskInfo.speculative) ledger.note(seenSpeculativeTasks)
  }

  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = ledger.note(seenExecutorsLost)
}

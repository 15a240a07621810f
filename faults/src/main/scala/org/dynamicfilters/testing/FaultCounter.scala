package org.dynamicfilters.testing

import java.util.concurrent.atomic.LongAdder

/** Faults that were injected, and what Spark saw of them; shown by `dynamic_filter_counters()` where faults are enabled. */
object FaultCounter extends Enumeration {

  val faultLost, faultLate, faultDuplicated, faultReordered, faultUndecodable = Value

  /** Messages that the driver took longer for. */
  val faultCoordinatorSlow = Value

  val faultTaskFailed, faultTaskSlow, faultExecutorKilled = Value

  /** Map tasks whose shuffle files were removed. */
  val faultShuffleRemoved = Value

  /** What Spark's listeners heard, whatever the cause: failed tasks, tasks that could not fetch, copies of slow tasks, executors
    * that have gone.
    */
  val seenTaskFailures, seenFetchFailures, seenSpeculativeTasks, seenExecutorsLost = Value
}

/** Counts on the driver. Thread-safe. */
final class FaultCounters {
  private val counts = Array.fill(FaultCounter.maxId)(new LongAdder)
  def add(c: FaultCounter.Value): Unit = counts(c.id).increment()
  def apply(c: FaultCounter.Value): Long = counts(c.id).sum
  def all: Seq[(String, Long)] = FaultCounter.values.toSeq.map(c => c.toString -> apply(c))
}

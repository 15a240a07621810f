package org.dynamicfilters.scan

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state.{Cost, Executions, StepTracker, Tested}

/** Whether the steps of one scan pay: a [[StepTracker]] for each, which the tasks of an execution share in a process.
  *
  * @param executionId
  *   None where nothing is shared
  * @param giveUp
  *   the share of rows above which a step is given up; 1 for never
  */
private[scan] final class ScanSteps(spec: ScanSpec, executionId: Option[Long], giveUp: Double) {

  /** What the execution's tasks in this process share; the task's own where it has no execution. */
  def shared[A <: AnyRef](key: String)(make: => A): A =
    executionId.flatMap(Executions.instance.attach(_, key)(make)).getOrElse(make)

  private def tracker(step: String, giveUp: Double = giveUp): StepTracker =
    shared(s"$step-${spec.scanId}")(new StepTracker(giveUp))

  private def trackers(step: String, n: Int, giveUp: Double = giveUp): IndexedSeq[StepTracker] =
    (0 until n).map(i => tracker(s"$step-$i", giveUp))

  /** Kept for the next execution, where the same filters can be known again. */
  private def remembered(step: String, filters: String): StepTracker = {
    val scan = (spec.marker.hashCode, spec.requiredSchema.hashCode, spec.options.hashCode)
    StepTracker.of((scan, step, filters.hashCode), giveUp)
  }

  /** Looks into dictionaries and Bloom filters of files, by column of the spec. */
  val dictionaries: IndexedSeq[StepTracker] = trackers("dictionary", spec.columns.size)
  val blooms: IndexedSeq[StepTracker] = trackers("bloom", spec.columns.size)

  /** Tests of rows that were read, by filter of the spec. */
  val rows: IndexedSeq[StepTracker] = trackers("rows", spec.filterRefs.size)

  /** Tests of rows by the snapshots of partitions, by filter of the spec. */
  lazy val snapshots: IndexedSeq[StepTracker] =
    trackers("snapshots", spec.filterRefs.size, spec.giveUpSelectivity)

  /** Tests of rows that were read by filters of joins of the same stage, all together. Such a join drops the same rows itself,
    * maybe for less than a test costs: TPC-DS q03 took 196 ms of executors' processor time with tests and 242 without, q65 60 ms
    * more with them. So both ways are measured up to where the operators above the scan ask for the next row group.
    */
  lazy val ownStageTests: StepTracker = {
    val tests = if (giveUp >= 1) tracker("ownStage") else remembered("ownStage", "")
    // All bytes have been read.
    tests.leaves(1)
    tests
  }

  /** First passes over the columns of these filters. Bounds of a TopK are others with each row group; filters of joins are known
    * again by their text.
    */
  def firstPass(filters: => IndexedSeq[ValueFilter]): StepTracker =
    if (!spec.isForJoinsOnly) anyFirstPass
    else {
      val now = filters
      if (passed.isEmpty || now.indices.exists(i => now(i) ne passed(i))) {
        passed = now
        ofPassed = remembered("late", now.filter(_ != ValueFilter.All).map(_.expression("")).mkString(";"))
      }
      ofPassed
    }
  private lazy val anyFirstPass = tracker("late", spec.giveUpSelectivity)
  private var ofPassed: StepTracker = _
  private var passed = IndexedSeq.empty[ValueFilter]

  /** Records the time that a row group took, all that was done with its rows included. */
  def tookRowGroup(nanos: Long): Unit = (dictionaries ++ blooms).foreach(_.add(Tested(0, 0, Cost(0, 0, nanos))))
}

package org.dynamicfilters.scan

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state.{Executions, StepTracker}

/** The trackers of a scan's steps ([[StepTracker]]). The tasks of an execution share them in a process.
  *
  * @param executionId None if tasks share nothing
  * @param giveUp largest share of passing rows at which a step pays; at 1 each step is taken, at any cost
  */
private[scan] final class ScanSteps(spec: ScanSpec, executionId: Option[Long], giveUp: Double) {

  /** An object that the execution's tasks share in this process, or a new one without an execution. */
  def shared[A <: AnyRef](key: String)(make: => A): A =
    executionId.flatMap(Executions.instance.attach(_, key)(make)).getOrElse(make)

  private def tracker(step: String, giveUp: Double): StepTracker =
    shared(s"$step-${spec.scanId}")(new StepTracker(giveUp))

  /** By column of the spec. */
  private def trackers(step: String): IndexedSeq[StepTracker] =
    spec.columns.indices.map(i => tracker(s"$step-$i", giveUp))

  /** A tracker that the next executions of the same scan with the same filters use too. */
  private def remembered(step: String, filters: String): StepTracker = {
    val scan = (spec.marker.hashCode, spec.requiredSchema.hashCode, spec.options.hashCode)
    StepTracker.of((scan, step, filters.hashCode), giveUp)
  }

  /** Lookups in dictionaries and Bloom filters of files. */
  val dictionaries: IndexedSeq[StepTracker] = trackers("dictionary")
  val blooms: IndexedSeq[StepTracker] = trackers("bloom")

  /** Tests of rows that were read. */
  val rows: IndexedSeq[StepTracker] = trackers("rows")

  /** First passes over the columns of these filters. Filters of joins are recognized by their text. The bound of a TopK
    * changes with each row group, so all its first passes have one tracker.
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
}

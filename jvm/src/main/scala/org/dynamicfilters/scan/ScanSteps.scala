package org.dynamicfilters.scan

import org.dynamicfilters.scan.parquet.LateMaterialization
import org.dynamicfilters.state.{Executions, StepTracker}

/** The trackers of a scan's steps ([[StepTracker]]). The tasks of an execution share them in a process.
  *
  * @param executionId None if tasks share nothing
  * @param giveUp largest share of passing rows at which lookups and tests of rows pay; at 1 they are always made. First
  *   passes have the session's, because they do not change which rows the scan returns
  */
private[scan] final class ScanSteps(spec: ScanSpec, executionId: Option[Long], giveUp: Double) {

  /** An object that the execution's tasks share in this process, or a new one without an execution. */
  def shared[A <: AnyRef](key: String)(make: => A): A =
    executionId.flatMap(Executions.instance.attach(_, key)(make)).getOrElse(make)

  private def tracker(step: String, giveUp: Double): StepTracker =
    shared(s"$step-${spec.scanId}")(new StepTracker(giveUp))

  /** By column of the spec. */
  private def trackers(step: String, giveUp: Double = giveUp): IndexedSeq[StepTracker] =
    spec.columns.indices.map(i => tracker(s"$step-$i", giveUp))

  /** Lookups in dictionaries and Bloom filters of files. */
  val dictionaries: IndexedSeq[StepTracker] = trackers("dictionary")
  val blooms: IndexedSeq[StepTracker] = trackers("bloom")

  /** Tests of rows that were read. */
  val rows: IndexedSeq[StepTracker] = trackers("rows")

  /** First passes over the filters' columns. */
  val firstPass: StepTracker = tracker("late", spec.giveUpSelectivity)

  /** Joins' filters in first passes. The column of one that lets nearly all rows through is not decoded for all rows.
    * With such columns TPC-DS q50 at scale factor 10 took 1.2 times the processor time.
    */
  val inFirstPass: IndexedSeq[StepTracker] =
    trackers("pass", math.max(LateMaterialization.ReadAllShare, spec.giveUpSelectivity))
}

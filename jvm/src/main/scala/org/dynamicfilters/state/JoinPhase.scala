package org.dynamicfilters.state

import org.dynamicfilters.filter.ValueFilter

/** Where the filter of a join's build side stands. Every way out of `Building` that is not `Ready` says why. */
sealed trait JoinPhase
object JoinPhase {

  /** Planned; the build side has not started, and may never do so. */
  case object Registered extends JoinPhase

  /** The build side runs, or has run, in this many partitions. */
  final case class Building(partitions: Int, reports: Reports.Value = Reports.Coming) extends JoinPhase

  /** What its partitions report: `Missing` are some of a build side that has ended; once they are `All` there, whoever asks for
    * the filter builds it.
    */
  object Reports extends Enumeration {
    val Coming, Missing, All = Value
  }

  /** @param reduced
    *   why the filter is less exact than it could be
    * @param distinct
    *   how many keys pass; see [[org.dynamicfilters.filter.BuiltFilter.distinct]]
    */
  final case class Ready(filter: ValueFilter, bytes: Int, reduced: Option[String], distinct: Option[Long])
      extends JoinPhase
  final case class Disabled(reason: String) extends JoinPhase
}

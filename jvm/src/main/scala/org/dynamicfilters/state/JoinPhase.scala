package org.dynamicfilters.state

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.reasons.Reason

/** The phases of a [[JoinState]]: Registered, Building, then Ready or Disabled. */
sealed trait JoinPhase {
  import JoinPhase._

  def isDisabled: Boolean = isInstanceOf[Disabled]

  /** Whether further reports of partitions do not matter. */
  def isDone: Boolean = isDisabled || isInstanceOf[Ready]

  /** Whether all partitions have reported, and the filter is built or can be. */
  def hasAllKeys: Boolean = this match {
    case Building(_, reports) => reports == Reports.All
    case _ => isInstanceOf[Ready]
  }
}
object JoinPhase {

  /** Planned; the build side has not started, and may never start. */
  case object Registered extends JoinPhase

  /** The build side has started, with this many partitions. */
  final case class Building(partitions: Int, reports: Reports.Value = Reports.Coming) extends JoinPhase

  /** Reports of the partitions: more to come, some missing although the build side has ended, or all there. With all
    * reports, the next reader builds the filter.
    */
  object Reports extends Enumeration {
    val Coming, Missing, All = Value
  }

  /** @param reduced why the filter is less exact than it could be
    * @param distinct number of keys that pass; see [[org.dynamicfilters.filter.BuiltFilter.distinct]]
    */
  final case class Ready(filter: ValueFilter, bytes: Int, reduced: Option[Reason], distinct: Option[Long])
      extends JoinPhase
  final case class Disabled(reason: Reason) extends JoinPhase
}

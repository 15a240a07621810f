package org.dynamicfilters.scan

/** How long the stage of a scan is held back for a join's filter.
  *
  * @param most
  *   in milliseconds, if the setting allows that long
  * @param endsAtStart
  *   whether it is over when the build side's job has been submitted
  */
sealed abstract class Wait(most: Long, val endsAtStart: Boolean = false) {

  /** @param longest
    *   what the setting allows, in milliseconds
    */
  final def millis(longest: Long): Long = math.min(longest, most)
}

object Wait {

  /** The filter is there by itself, or comes when it comes. */
  case object No extends Wait(0)

  /** Until the build side's job has been submitted, or has surely been. Spark gives slots to older jobs first, so from then on
    * the scan only gets slots that the build side leaves idle, and takes the filter up when it comes.
    */
  case object Briefly extends Wait(100, endsAtStart = true)

  /** Until the filter is ready or will not come. */
  case object UntilReady extends Wait(Long.MaxValue)
}

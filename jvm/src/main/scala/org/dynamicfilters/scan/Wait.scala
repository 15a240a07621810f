package org.dynamicfilters.scan

/** How long the stage of a scan is held back for a join's filter.
  *
  * @param most
  *   in milliseconds, if the setting allows that long
  */
sealed abstract class Wait(most: Long) {

  /** @param longest
    *   what the setting allows, in milliseconds
    */
  final def millis(longest: Long): Long = math.min(longest, most)

  /** Whether it ends when the build side's job has been submitted. */
  final def endsAtStart: Boolean = this == Wait.Briefly
}

object Wait {

  /** The filter is there by itself, or comes when it comes. */
  case object No extends Wait(0)

  /** Until the build side's job has been submitted, or has surely been. Spark gives slots to older jobs first, so from then on
    * the scan only gets slots that the build side leaves idle, and takes the filter up when it comes.
    */
  case object Briefly extends Wait(100)

  /** Until the filter is ready or will not come. */
  case object UntilReady extends Wait(Long.MaxValue)
}

package org.dynamicfilters.filter

/**
 * The ends of a range over a [[LongDomain]] as two numbers, both inclusive and within the domain, so that a loop compares
 * twice and does nothing else. No value passes if `lo > hi`.
 */
private[filter] final case class ClosedLongs(lo: Long, hi: Long) {
  def isEmpty: Boolean = lo > hi
}

private[filter] object ClosedLongs {

  /** One empty range for all: it fits in every integer type and, as booleans, is empty too. */
  val empty: ClosedLongs = ClosedLongs(1L, 0L)

  def between(domain: LongDomain, lower: Option[End], upper: Option[End]): ClosedLongs = {
    val bounded = for {
      lo <- lower.fold(Option(domain.least))(lowest)
      hi <- upper.fold(Option(domain.greatest))(highest)
    } yield trim(domain, math.max(lo, domain.least), math.min(hi, domain.greatest))
    bounded.filterNot(_.isEmpty).getOrElse(empty)
  }

  // None: nothing is above the greatest long, or below the least.
  private def lowest(end: End): Option[Long] = {
    val key = end.key.asInstanceOf[java.lang.Long].longValue
    if (end.inclusive) Some(key) else if (key == Long.MaxValue) None else Some(key + 1)
  }

  private def highest(end: End): Option[Long] = {
    val key = end.key.asInstanceOf[java.lang.Long].longValue
    if (end.inclusive) Some(key) else if (key == Long.MinValue) None else Some(key - 1)
  }

  /** Takes the one code that no floating point number has off both ends, so that a range of one code has one value. */
  private def trim(domain: LongDomain, lo: Long, hi: Long): ClosedLongs =
    if (!domain.isFloating) ClosedLongs(lo, hi)
    else
      ClosedLongs(
        if (lo == SortableBits.hole) lo + 1 else lo,
        if (hi == SortableBits.hole) hi - 1 else hi
      )
}

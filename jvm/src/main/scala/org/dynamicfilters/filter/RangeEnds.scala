package org.dynamicfilters.filter

/** One end of a range. Its key is never null.
  *
  * @param key not null
  * @param inclusive whether the key itself belongs to the range
  */
final case class End(key: AnyRef, inclusive: Boolean)

/** The ends of a range over a [[LongDomain]] as two numbers, both inclusive and within the domain, so that a loop
  * compares twice and does nothing else. No value passes if `lo > hi`.
  */
private[filter] final case class LongInterval(lo: Long, hi: Long) {
  def isEmpty: Boolean = lo > hi
}

private[filter] object LongInterval {

  /** One empty range for all: it fits in every integer type and, as booleans, is empty too. */
  val empty: LongInterval = LongInterval(1L, 0L)

  def between(domain: LongDomain, lower: Option[End], upper: Option[End]): LongInterval = {
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

  /** Moves an end off the code that no floating point number has, so that a range of one code has one value. */
  private def trim(domain: LongDomain, lo: Long, hi: Long): LongInterval =
    if (!domain.isFloating) LongInterval(lo, hi)
    else
      LongInterval(
        if (lo == SortableBits.unusedCode) lo + 1 else lo,
        if (hi == SortableBits.unusedCode) hi - 1 else hi
      )
}

/** Renders ranges for plans and reports. */
private[filter] object RangeText {

  def expression(r: ValueFilter.Range, column: String): String =
    if (r.hasNoValues) { if (r.nulls) s"$column IS NULL" else "false" }
    else if (r.lower.isEmpty && r.upper.isEmpty) { if (r.nulls) "true" else s"$column IS NOT NULL" }
    else if (r.nulls) s"(${values(r, column)} OR $column IS NULL)"
    else values(r, column)

  /** The range has an end, and is not empty. */
  private def values(r: ValueFilter.Range, column: String): String = (r.lower, r.upper) match {
    case (Some(l), Some(u)) if r.domain.compare(l.key, u.key) == 0 => s"$column = ${text(r, l)}"
    case (Some(l), Some(u)) => s"${text(r, l)} ${less(l)} $column ${less(u)} ${text(r, u)}"
    case (Some(l), None) => s"$column ${if (l.inclusive) ">=" else ">"} ${text(r, l)}"
    case (None, upper) => upper.fold("true")(u => s"$column ${less(u)} ${text(r, u)}")
  }

  private def text(r: ValueFilter.Range, end: End): String = r.domain.render(end.key)

  private def less(end: End): String = if (end.inclusive) "<=" else "<"
}

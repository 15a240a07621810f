package org.dynamicfilters.filter

/** A range as users read it in plans and reports. */
private[filter] object RangeText {

  def expression(r: ValueFilter.Range, column: String): String =
    if (r.hasNoValues) { if (r.nulls) s"$column IS NULL" else "false" }
    else if (r.lower.isEmpty && r.upper.isEmpty) { if (r.nulls) "true" else s"$column IS NOT NULL" }
    else if (r.nulls) s"(${values(r, column)} OR $column IS NULL)"
    else values(r, column)

  /** At least one end is there, and some value lies between the two. */
  private def values(r: ValueFilter.Range, column: String): String = (r.lower, r.upper) match {
    case (Some(l), Some(u)) if r.domain.compare(l.key, u.key) == 0 => s"$column = ${text(r, l)}"
    case (Some(l), Some(u)) => s"${text(r, l)} ${less(l)} $column ${less(u)} ${text(r, u)}"
    case (Some(l), None) => s"$column ${if (l.inclusive) ">=" else ">"} ${text(r, l)}"
    case (None, upper) => upper.fold("true")(u => s"$column ${less(u)} ${text(r, u)}")
  }

  private def text(r: ValueFilter.Range, end: End): String = r.domain.render(end.key)

  private def less(end: End): String = if (end.inclusive) "<=" else "<"
}

package org.dynamicfilters.filter

/** A range as users read it in plans and reports. */
private[filter] object RangeText {

  def expression(r: ValueFilter.Range, column: String): String = {
    val values = (r.lower, r.upper) match {
      case (None, None) => None
      case _ if r.hasNoValues => Some("false")
      case (Some(l), Some(u)) if r.domain.compare(l.key, u.key) == 0 => Some(s"$column = ${text(r, l)}")
      case (Some(l), Some(u)) => Some(s"${text(r, l)} ${less(l)} $column ${less(u)} ${text(r, u)}")
      case (Some(l), None) => Some(s"$column ${if (l.inclusive) ">=" else ">"} ${text(r, l)}")
      case (None, Some(u)) => Some(s"$column ${less(u)} ${text(r, u)}")
    }
    values match {
      case Some("false") => if (r.nulls) s"$column IS NULL" else "false"
      case Some(v) => if (r.nulls) s"($v OR $column IS NULL)" else v
      case None => if (r.nulls) "true" else s"$column IS NOT NULL"
    }
  }

  private def text(r: ValueFilter.Range, end: End): String = r.domain.render(end.key)

  private def less(end: End): String = if (end.inclusive) "<=" else "<"
}

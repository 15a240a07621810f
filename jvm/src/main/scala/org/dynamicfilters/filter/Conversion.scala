package org.dynamicfilters.filter

/** Helps forms to implement [[ValueFilter.convert]]. A number has the same key in each integer type. */
private[filter] object Conversion {
  import ValueFilter._

  /** @param converted converts the filter from one integer type to another */
  def ofIntegers(f: ValueFilter, from: KeyDomain, to: KeyDomain)(
      converted: LongDomain => ValueFilter
  ): ValueFilter =
    if (from == to) f
    else
      to match {
        case t: LongDomain if KeyDomain.isInteger(from.dataType) && KeyDomain.isInteger(t.dataType) => converted(t)
        case _ => All
      }

  /** An open end stays open: the filter excludes no value beyond the type that it was made for. */
  def range(r: Range, t: LongDomain): Range =
    if (r.hasNoValues) empty(t, r.nulls)
    else {
      val lower = r.lower.map(_ => r.longs.lo)
      val upper = r.upper.map(_ => r.longs.hi)
      if (lower.exists(_ > t.greatest) || upper.exists(_ < t.least)) empty(t, r.nulls)
      else
        Range(t, lower.map(lo => end(math.max(lo, t.least))), upper.map(hi => end(math.min(hi, t.greatest))), r.nulls)
    }

  def members(m: Members, t: LongDomain): ValueFilter = {
    val within = range(m.range, t)
    if (within.hasNoValues) none(t, m.nulls)
    else
      m.keys match {
        case s: LongSet =>
          s.between(t.least, t.greatest).fold(none(t, m.nulls))(s => ValueFilter.members(s.as(t), within))
        case i: LongIntervals =>
          i.between(t.least, t.greatest).fold(none(t, m.nulls))(i => ValueFilter.members(i.as(t), within))
        case b: Bloom => ValueFilter.members(b.copy(domain = t), within)
        case _: ObjectValues => All
      }
  }

  private def empty(t: LongDomain, nulls: Boolean): Range = Range(t, Some(end(1L)), Some(end(0L)), nulls)

  private def end(code: Long): End = End(Long.box(code), inclusive = true)
}

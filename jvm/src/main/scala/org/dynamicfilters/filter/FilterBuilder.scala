package org.dynamicfilters.filter

import org.dynamicfilters.reasons.{Reason, Reasons}

/** Implements [[KeyPartial.build]]: the union of all partitions' keys, in the form that suits their number and type. */
private[filter] object FilterBuilder {
  import KeyPartial._
  import ValueFilter._

  def build(parts: Seq[KeyPartial], limits: KeyLimits, nullsMatch: Boolean): BuiltFilter = {
    parts.headOption.foreach(first => parts.foreach(p => sameDomain(first.domain, p.domain)))
    val nulls = nullsMatch && parts.exists(_.hasNulls)
    parts.filter(_.hasValues) match {
      case Seq() => BuiltFilter(if (nulls) NullsOnly(parts.head.domain) else ValueFilter.Nothing, 0, None)
      case withValues => fitting(withValues, limits, spanned(withValues, nulls))
    }
  }

  private def spanned(parts: Seq[KeyPartial], nulls: Boolean): Range = {
    val domain = parts.head.domain
    val min = parts.map(_.min).reduce((a, b) => if (domain.compare(a, b) <= 0) a else b)
    val max = parts.map(_.max).reduce((a, b) => if (domain.compare(a, b) >= 0) a else b)
    closed(domain, min, max, nulls)
  }

  private def fitting(parts: Seq[KeyPartial], limits: KeyLimits, range: Range): BuiltFilter = {
    val outgrown = parts.map(_.keys).collect { case Outgrown(limit, _) => limit }
    val built =
      range.domain match {
        case d: LongDomain if parts.exists(_.isOfIntervals) => intervals(d, parts.map(_.keys), limits, range)
        case _ if outgrown.nonEmpty =>
          BuiltFilter(range.simplest, outgrown.max, Some(Reasons.ManyKeysInPartition(outgrown.max)))
        case d: LongDomain => longs(d, union(d, parts.map(_.keys)), limits, range)
        case d: ObjectDomain => objects(d, parts.map(_.keys), limits, range)
      }
    // The ends of a range of strings may be long.
    if (FilterCodec.sizeOf(built.filter) <= limits.maxFilterBytes) built
    else BuiltFilter(All, built.values, Some(Reasons.LargeRange(limits.maxFilterBytes)))
  }

  private def intervals(d: LongDomain, keys: Seq[Keys], limits: KeyLimits, range: Range): BuiltFilter = {
    val merged = LongIntervals.union(d, keys.collect { case Distinct(i: LongIntervals) => i.each }.flatten)
    // An interval without an end was collected with that of its type.
    val open = range.copy(
      lower = range.lower.filter(_.key != Long.box(d.least)),
      upper = range.upper.filter(_.key != Long.box(d.greatest))
    )
    val most = limits.inMaxValues
    if (merged.size > most || keys.exists(_.isInstanceOf[Outgrown]))
      BuiltFilter(open.simplest, merged.size.max(most.toLong), Some(Reasons.ManyIntervals(most)))
    else if (merged.size == 1) BuiltFilter(open.simplest, 1, None)
    else BuiltFilter(members(merged, range), merged.size, None)
  }

  private def longs(d: LongDomain, keys: LongSet, limits: KeyLimits, range: Range): BuiltFilter = {
    val n = keys.size
    lazy val values = members(LongValues(d, keys.toArray), range)
    // Consecutive keys are a range.
    if (keys.greatest - keys.least == n - 1) BuiltFilter(range.simplest, n, None)
    else if (n > limits.maxRows) tooMany(n, limits, range)
    else if (n <= limits.inMaxValues && fits(values, limits)) BuiltFilter(values, n, None)
    else {
      val tooLarge = Option.when(n <= limits.inMaxValues)(Reasons.LargeValues(limits.maxFilterBytes))
      if (!LongBitmap.suits(d)) bloom(d, keys, limits, range, tooLarge)
      else if (!LongBitmap.pays(keys))
        bloom(d, keys, limits, range, Some(Reasons.SparseKeys(LongBitmap.fewest)))
      else {
        val bits = keys match {
          case b: LongBitmap => b
          case other => LongBitmap.build(d, other.foreach(_))
        }
        if (bits.sizeInBytes + overhead <= limits.maxFilterBytes) BuiltFilter(members(bits, range), n, tooLarge)
        else bloom(d, keys, limits, range, Some(Reasons.LargeBitmap(limits.maxFilterBytes)))
      }
    }
  }

  /** The keys of all partitions. A bitmap if a partition has sent one, unless the others have more keys that are sparse. */
  private[filter] def union(d: LongDomain, keys: Seq[Keys]): LongSet = {
    val sets = keys.collect { case Distinct(s: LongSet) => s }.filter(_.size > 0)
    val (bitmaps, values) = sets.partitionMap {
      case b: LongBitmap => Left(b)
      case other => Right(other)
    }
    // Arrays of all bitmaps' numbers might not fit into memory, so a few sparse numbers beside them become bits, too.
    def sparse = values.filterNot(LongBitmap.pays).map(_.size.toLong).sum
    if (bitmaps.nonEmpty && sparse <= bitmaps.map(_.size.toLong).sum)
      LongBitmap.union(bitmaps ++ values.map(v => LongBitmap.build(d, v.foreach(_))))
    else LongValues(d, SortedLongs.union(sets.map(_.toArray)))
  }

  private def objects(d: ObjectDomain, keys: Seq[Keys], limits: KeyLimits, range: Range): BuiltFilter = {
    val values = keys.collect { case Distinct(set: ObjectValues) => set.sorted }
    val distinct = new java.util.TreeSet[AnyRef]((a: AnyRef, b: AnyRef) => d.compare(a, b))
    if (values.size == keys.size) values.foreach(_.foreach(distinct.add))
    val n = distinct.size
    val few = Option.when(values.size == keys.size && n <= math.min(limits.inMaxValues, limits.maxRows))(
      members(ObjectValues(d, distinct.toArray), range)
    )
    few.filter(fits(_, limits)) match {
      case Some(f) => BuiltFilter(f, n, None)
      case None =>
        val hashes = keys.collect {
          case Distinct(set: ObjectValues) => SortedLongs.fromUnsorted(set.sorted.map(Bloom.code(d, _)))
          case Hashes(codes) => codes.toArray
        }
        val codes = LongValues(Bloom.hashes, SortedLongs.union(hashes))
        if (codes.size > limits.maxRows) tooMany(codes.size, limits, range)
        else bloom(d, codes, limits, range, few.map(_ => Reasons.LargeValues(limits.maxFilterBytes)))
    }
  }

  private def bloom(
      d: KeyDomain,
      codes: LongSet,
      limits: KeyLimits,
      range: Range,
      why: Option[Reason]
  ): BuiltFilter = {
    val n = codes.size
    // Checked before it is built: its size follows from the number of keys.
    if (Bloom.sizeInBytes(n, limits.bloomFpp) + overhead <= limits.maxFilterBytes) {
      val f = members(Bloom.build(d, n, codes.foreach(_), limits.bloomFpp, 1), range)
      if (fits(f, limits)) return BuiltFilter(f, n, why)
    }
    BuiltFilter(range.simplest, n, Some(Reasons.LargeBloom(limits.maxFilterBytes)))
  }

  /** Bytes of a message beside a bitmap or bloom filter whose keys are longs. */
  private[filter] val overhead = 128

  private def fits(f: ValueFilter, limits: KeyLimits): Boolean = FilterCodec.sizeOf(f) <= limits.maxFilterBytes

  private def tooMany(n: Long, limits: KeyLimits, range: Range): BuiltFilter =
    BuiltFilter(range.simplest, n, Some(Reasons.ManyKeys(limits.maxRows)))
}

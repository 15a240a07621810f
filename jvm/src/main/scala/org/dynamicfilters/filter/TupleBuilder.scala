package org.dynamicfilters.filter

/**
 * The filter of a join's tuples of keys, of what [[TupleCollector]]s found in all partitions.
 *
 * It pays where the probe side is shuffled and no key is selective alone, as where customers are numbered by tenant: a join of
 * 2M rows by tenant and number took 2.6 s of processor time with it and 5.6 s without it. Queries of TPC-DS take the same time
 * (docs/how-it-works.md).
 */
object TupleBuilder {
  import ValueFilter._

  /**
   * The hashes of all partitions' tuples as a set or, above `inMaxValues`, as a bloom filter.
   *
   * @param parts
   *   one of each partition. If one were missing, rows would be lost. None at all: nothing passes
   * @param distinct
   *   by key of the tuple, how many values it has in the build side ([[BuiltFilter.distinct]])
   * @return
   *   a filter of hashes ([[TupleHash]]); or why there is none, or none that leaves out more than the filters of the single
   *   keys do
   */
  def build(parts: Seq[KeyPartial], limits: KeyLimits, distinct: Seq[Option[Long]]): Either[String, BuiltFilter] = {
    parts.foreach(p => sameDomain(TupleHash.domain, p.domain))
    val outgrown = parts.map(_.keys).collect { case KeyPartial.Outgrown(limit) => limit }
    if (outgrown.nonEmpty) Left(s"a partition of the build side has more than ${outgrown.max} tuples of keys")
    else {
      val hashes = FilterBuilder.union(TupleHash.domain, parts.map(_.keys))
      if (hashes.size == 0) Right(BuiltFilter(ValueFilter.Nothing, 0, None))
      else if (hashes.size > limits.maxRows) Left(s"the build side has more than ${limits.maxRows} tuples of keys")
      else redundant(hashes.size, limits, distinct).toLeft(()).flatMap(_ => form(hashes, limits))
    }
  }

  /**
   * Of rows whose single keys all have a match, the tuples pass about as many as they are among the combinations of these
   * keys, if the rows of the other side have these in any combination. Whether they have can only be measured by the scan.
   */
  private def redundant(tuples: Long, limits: KeyLimits, distinct: Seq[Option[Long]]): Option[String] = {
    val combinations = if (distinct.forall(_.isDefined)) distinct.flatten.map(_.toDouble).product else Double.MaxValue
    // All of them leave nothing out for certain, whatever the share.
    Option.when(tuples >= combinations || tuples > combinations * limits.tupleShare)(
      f"the keys of each column alone leave out as much: the $tuples tuples are most of the $combinations%.0f combinations"
    )
  }

  private def form(hashes: LongSet, limits: KeyLimits): Either[String, BuiltFilter] = {
    val n = hashes.size
    // Not the simplest filter of these ends: a range of hashes means nothing to a reader.
    val range = Range(TupleHash.domain, Some(end(hashes.least)), Some(end(hashes.greatest)), nulls = false)
    lazy val values = Members(range, LongValues(TupleHash.domain, hashes.toArray))
    if (n <= limits.inMaxValues && FilterCodec.sizeOf(values) <= limits.maxFilterBytes)
      Right(BuiltFilter(values, n, None))
    else if (Bloom.sizeInBytes(n, limits.bloomFpp) + FilterBuilder.overhead <= limits.maxFilterBytes)
      Right(
        BuiltFilter(Members(range, Bloom.build(TupleHash.domain, n, hashes.foreach(_), limits.bloomFpp, 1)), n, None)
      )
    else Left(s"a bloom filter takes more than ${limits.maxFilterBytes} bytes")
  }

  private def end(hash: Long): End = End(Long.box(hash), inclusive = true)
}

/** How users read the filter of a tuple: it is a filter of hashes, of which they need not know. */
object TupleText {

  /** One of all, nothing, in, bloom. */
  def form(f: ValueFilter): String = f match {
    case m: ValueFilter.Members => m.keys.form
    case other => other.form
  }

  /** `(x, y) IN (951 tuples)`; no data values. */
  def expression(f: ValueFilter, columns: String): String = f match {
    case m: ValueFilter.Members =>
      val tuples = if (m.keys.size == 1) "1 tuple" else s"${m.keys.size} tuples"
      s"$columns IN (${if (m.keys.isExact) tuples else s"bloom filter of $tuples"})"
    case other => other.expression(columns)
  }

  /** `(x, y)`. */
  def columns(names: Seq[String]): String = names.mkString("(", ", ", ")")
}

package org.dynamicfilters.filter

import org.dynamicfilters.reasons.{Reason, Reasons}

/** Limits of the keys that a join's build side collects and of the filter made of them.
  *
  * @param maxRows a build side with more distinct keys gives its range only
  * @param inMaxValues with more keys the filter is a bitmap or a bloom filter; with more intervals, a range
  * @param bloomFpp target false positive rate, between 0 and 1
  * @param maxFilterBytes a larger encoded filter is reduced; also the memory of each collecting partition
  * @param maxSentBytes bytes that all partitions together may send
  */
final case class KeyLimits(
    maxRows: Int,
    inMaxValues: Int,
    bloomFpp: Double,
    maxFilterBytes: Long,
    maxSentBytes: Long = Long.MaxValue
) {

  /** The limits of one partition's distinct keys. An encoded number takes at least a byte, except in a bitmap. */
  private[filter] def perPartition(partitions: Int): DistinctLimits = {
    val sent =
      math.min(share(maxFilterBytes, partitions).max(KeyLimits.alwaysKeys * 8), share(maxSentBytes, partitions))
    DistinctLimits(maxRows.max(KeyLimits.alwaysKeys).min(KeyLimits.mostKeys), sent, maxFilterBytes)
  }

  /** How many bytes a partition may send in all: its keys, and their minimum and maximum, which may be long. */
  def mostSent(partitions: Int): Long = {
    val each = share(maxSentBytes, partitions)
    if (each > Long.MaxValue / 4) Long.MaxValue else KeyLimits.alwaysSent + 2 * each
  }

  private def share(bytes: Long, partitions: Int): Long = bytes / math.max(1, partitions)
}

object KeyLimits {

  /** Number of keys that are kept even if a limit is lower. */
  private val alwaysKeys = 1024

  /** Bytes that are sent even if a limit is lower: Spark's own part of a task result is larger. */
  private val alwaysSent = 1024L

  /** An array has room for twice as many, which sorting needs. */
  private val mostKeys = 1 << 29
}

/** The keys of one key column in one partition of a join's build side. Made by [[KeyCollector]] in a task, merged by
  * [[KeyPartial.build]]. Immutable.
  *
  * @param hasNulls whether any key was SQL NULL
  * @param min the least key; null if all keys are SQL NULL
  * @param max the greatest key; null if all keys are SQL NULL
  * @param keys the distinct keys
  */
final case class KeyPartial(
    domain: KeyDomain,
    hasNulls: Boolean,
    min: AnyRef,
    max: AnyRef,
    keys: KeyPartial.Keys
) {
  require((min == null) == (max == null), "a partial with one end")

  def hasValues: Boolean = min != null

  /** Whether there were too many keys to keep. */
  def outgrown: Boolean = keys.isInstanceOf[KeyPartial.Outgrown]

  def isOfIntervals: Boolean = keys match {
    case KeyPartial.Distinct(_: LongIntervals) | KeyPartial.Outgrown(_, true) => true
    case _ => false
  }

  def encode: Array[Byte] = PartialCodec.encode(this)
}

object KeyPartial {

  /** The distinct keys of a partition, in one of three forms. */
  sealed trait Keys extends Serializable

  /** All of them. */
  final case class Distinct(set: KeySet) extends Keys

  /** The codes ([[Bloom.code]]) of all keys of an [[ObjectDomain]], because the keys took too many bytes. */
  final case class Hashes(codes: LongSet) extends Keys

  /** There were more than `limit` keys or intervals, so none is kept. */
  final case class Outgrown(limit: Long, areIntervals: Boolean = false) extends Keys

  /** Sent in place of an encoded partial that is larger than [[KeyLimits.mostSent]]. */
  val tooLarge: Array[Byte] = Array.emptyByteArray

  /** Decodes the bytes of [[KeyPartial.encode]], or says why there is no partial. Never throws. */
  def decode(bytes: Array[Byte]): Either[Reason, KeyPartial] =
    if (bytes.isEmpty) Left(Reasons.LongKeys) else PartialCodec.decode(bytes).left.map(Reasons.Unreadable)

  /** The filter for the other side of a join. Passes the keys of all partitions.
    *
    * @param parts one for each partition, all of the same domain (IllegalArgumentException otherwise). A missing one
    *   would lose rows. An empty Seq means that the build side has no partitions, so nothing passes
    * @param nullsMatch whether the join treats NULLs as equal (`<=>`)
    */
  def build(parts: Seq[KeyPartial], limits: KeyLimits, nullsMatch: Boolean): BuiltFilter =
    FilterBuilder.build(parts, limits, nullsMatch)
}

/** A join filter and what its form was made of.
  *
  * @param values number of distinct keys of the build side without SQL NULL; if unknown, the largest limit that a
  *   partition exceeded
  * @param reduced why the filter has a simpler form than its keys allow; None if it has not
  */
final case class BuiltFilter(filter: ValueFilter, values: Long, reduced: Option[Reason]) {

  /** How many keys pass, counting SQL NULL as one; None if the number is unknown. */
  def distinct: Option[Long] = {
    val knows = reduced.isEmpty || filter.isInstanceOf[ValueFilter.Members]
    Option.when(knows)(values + (if (filter.passes(null)) 1 else 0))
  }
}

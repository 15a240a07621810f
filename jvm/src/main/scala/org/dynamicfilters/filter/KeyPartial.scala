package org.dynamicfilters.filter

/**
 * How much a join's build side may say of its keys.
 *
 * @param maxRows
 *   a build side with more distinct keys gives its range only
 * @param inMaxValues
 *   up to here the filter has the values themselves, above a bitmap or a bloom filter
 * @param bloomFpp
 *   the false positive rate aimed at, between 0 and 1
 * @param maxFilterBytes
 *   an encoded filter above this is reduced; also what all partitions together may hold while they collect
 * @param tupleShare
 *   tuples of several keys that are a greater share of the combinations of these keys, or all of them, make no filter of
 *   their own
 * @param maxSentBytes
 *   what all partitions together may send
 */
final case class KeyLimits(
    maxRows: Int,
    inMaxValues: Int,
    bloomFpp: Double,
    maxFilterBytes: Long,
    tupleShare: Double = 0.6,
    maxSentBytes: Long = Long.MaxValue
) {

  /** How many keys one of so many partitions may keep as hashes: each takes eight bytes when it is sent. */
  private[filter] def hashesPerPartition(partitions: Int): Int =
    math.max(1L, math.min(bounded(bytesPerPartition(partitions) / 8), share(maxSentBytes, partitions) / 8)).toInt

  /**
   * How many keys that are numbers one of so many partitions may keep. When they are sent, each takes a byte at least, and as
   * many as its distance from the one before needs: [[sentPerPartition]] bounds these. Those that are kept one by one take
   * eight bytes each more for a moment, to sort them, and then what is sent; those that lie close to each other do not.
   */
  private[filter] def numbersPerPartition(partitions: Int): Int =
    bounded(math.min(bytesPerPartition(partitions), maxFilterBytes / 8))

  /** How many bytes the numbers of one of so many partitions may take when they are sent. */
  private[filter] def sentPerPartition(partitions: Int): Long =
    math.min(math.max(KeyLimits.alwaysKeys * 8, bytesPerPartition(partitions)), share(maxSentBytes, partitions))

  /**
   * How many bytes one of so many partitions may send, all in all. Keys that are kept take a share; the least and the greatest
   * come on top of it, at any length.
   */
  def mostSent(partitions: Int): Long = {
    val each = share(maxSentBytes, partitions)
    if (each > Long.MaxValue / 4) Long.MaxValue else KeyLimits.alwaysSent + 2 * each
  }

  private def bounded(keys: Long): Int =
    math.max(KeyLimits.alwaysKeys, math.min(maxRows.toLong, keys)).min(KeyLimits.mostKeys).toInt

  private[filter] def bytesPerPartition(partitions: Int): Long =
    share(math.min(maxFilterBytes, maxSentBytes), partitions)

  private def share(bytes: Long, partitions: Int): Long = bytes / math.max(1, partitions)
}

object KeyLimits {

  /** So few are kept whatever a filter's limits are: they cost nothing. */
  private val alwaysKeys = 1024L

  /** So many bytes are sent whatever the limits are: Spark's own part of a result takes more. */
  private val alwaysSent = 1024L

  /** Twice as many still fit in an array. */
  private val mostKeys = 1L << 29
}

/**
 * What one partition of a join's build side says of one key column. Immutable. Made by [[KeyCollector]], merged by
 * [[KeyPartial.build]].
 *
 * @param rows
 *   all rows, those with a null key included
 * @param hasNulls
 *   whether a key was SQL NULL
 * @param min
 *   the least key; null if there is none but SQL NULL
 * @param max
 *   the greatest key; null if there is none but SQL NULL
 * @param keys
 *   the distinct keys
 */
final case class KeyPartial(
    domain: KeyDomain,
    rows: Long,
    hasNulls: Boolean,
    min: AnyRef,
    max: AnyRef,
    keys: KeyPartial.Keys
) {
  require((min == null) == (max == null), "a partial with one end")

  def hasValues: Boolean = min != null

  /** Whether there were too many keys to keep them. */
  def outgrown: Boolean = keys.isInstanceOf[KeyPartial.Outgrown]

  def encode: Array[Byte] = PartialCodec.encode(this)

  override def equals(other: Any): Boolean = other match {
    case that: KeyPartial =>
      that.domain == domain && that.rows == rows && that.hasNulls == hasNulls && End.sameKey(that.min, min) &&
      End.sameKey(that.max, max) && that.keys == keys
    case _ => false
  }

  override def hashCode: Int = (rows.hashCode * 31 + End.hashOf(min)) * 31 + End.hashOf(max)
}

object KeyPartial {

  /** The distinct keys of a partition, or what is left of them. */
  sealed trait Keys extends Serializable

  /** All of them. */
  final case class Distinct(set: KeySet) extends Keys

  /** The codes of all of them ([[Bloom.code]]), in an [[ObjectDomain]] whose keys took too many bytes. */
  final case class Hashes(codes: LongSet) extends Keys

  /** There were more than `limit` of them, and so none is kept. */
  final case class Outgrown(limit: Long) extends Keys

  /** In place of an encoded partial: the partition has given its keys up, see [[KeyCost]]. */
  val givenUp: Array[Byte] = Array.emptyByteArray

  /** In place of an encoded partial that is larger than [[KeyLimits.mostSent]]. */
  val tooLarge: Array[Byte] = Array(0)

  private val TooLarge = "the build keys are too long to be sent: they count in spark.driver.maxResultSize"

  /** The partial in [[KeyPartial.encode]]'s bytes, or why there is none. Never throws. */
  def decode(bytes: Array[Byte]): Either[String, KeyPartial] = bytes.length match {
    case 0 => Left(KeyCost.TooMuch)
    case 1 => Left(TooLarge)
    case _ => PartialCodec.decode(bytes)
  }

  /** As [[build]], the filter alone. */
  def filter(parts: Seq[KeyPartial], limits: KeyLimits, nullsMatch: Boolean): ValueFilter =
    build(parts, limits, nullsMatch).filter

  /**
   * The filter for the other side of a join: what passes has a key that some partition had.
   *
   * @param parts
   *   one of each partition, all of the same domain (IllegalArgumentException otherwise). If one were missing, rows would be
   *   lost. None at all: a build side without partitions, so nothing passes
   * @param nullsMatch
   *   whether the join takes nulls for equal (`<=>`)
   */
  def build(parts: Seq[KeyPartial], limits: KeyLimits, nullsMatch: Boolean): BuiltFilter =
    FilterBuilder.build(parts, limits, nullsMatch)
}

/**
 * A join filter and what became of its keys.
 *
 * @param values
 *   the distinct keys of the build side, SQL NULL not among them; if they are not known, those of its largest partition's
 *   limit, which are fewer
 * @param reduced
 *   why the filter has a simpler form than its keys had allowed; None if it has not
 */
final case class BuiltFilter(filter: ValueFilter, values: Long, reduced: Option[String]) {

  /** How many keys pass, SQL NULL being one if it does; None if the filter does not know its keys one by one. */
  def distinct: Option[Long] = {
    val knows = reduced.isEmpty || filter.isInstanceOf[ValueFilter.Members]
    Option.when(knows)(values + (if (filter.passes(null)) 1 else 0))
  }
}

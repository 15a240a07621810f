package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.unsafe.types.UTF8String

/** Collects the keys of one column of a join's build side in one task. Not thread-safe.
  *
  * Memory is bounded: above the limits the distinct keys are dropped and only the range is collected, which costs two
  * comparisons a row.
  */
sealed abstract class KeyCollector {

  /** Adds the key of a row. Keeps no reference to the row. */
  def add(row: SpecializedGetters, ordinal: Int): Unit

  /** Whether there were too many keys to keep, so that only the range is collected. May become true as late as in
    * [[result]].
    */
  def outgrown: Boolean

  /** Returns what was collected. Called once, after the last row. */
  def result(): KeyPartial
}

object KeyCollector {

  /** @param partitions
    *   number of tasks that share the limits
    */
  def apply(domain: KeyDomain, limits: KeyLimits, partitions: Int): KeyCollector = domain match {
    case d: LongDomain =>
      val most = DistinctLimits(
        limits.numbersPerPartition(partitions),
        limits.sentPerPartition(partitions),
        limits.maxFilterBytes
      )
      d.kind match {
        case LongDomain.IntKind => new IntKeys(d, most)
        case LongDomain.LongKind => new LongKeys(d, most)
        case _ => new CodeKeys(d, most)
      }
    case d: ObjectDomain =>
      new ObjectKeys(d, limits.inMaxValues, limits.bytesPerPartition(partitions), limits.hashesPerPartition(partitions))
  }
}

/** Collects keys that are longs. A subclass for each common getter saves a test of the type for each row. */
private[filter] sealed abstract class NumberKeys(domain: LongDomain, most: DistinctLimits) extends KeyCollector {
  protected final var rows = 0L
  protected final var hasNulls = false

  // min > max as long as there is no key.
  private var min = Long.MaxValue
  private var max = Long.MinValue
  private var last = 0L
  // null if there were too many; `kept` is then a number that they exceed.
  private var keys = new DistinctLongs(domain, most)
  private var kept = 0L

  /** Adjacent rows often have the same key, as in sorted or joined data. */
  protected final def addCode(code: Long): Unit =
    if (code != last || min > max) {
      last = code
      if (code < min) min = code
      if (code > max) max = code
      if (keys != null && !keys.add(code)) {
        kept = exceeded
        keys = null
      }
    }

  /** A number that the distinct keys exceed, if they are too many. */
  private def exceeded: Long = math.max(0L, keys.atLeast - 1)

  override final def outgrown: Boolean = keys == null

  override final def result(): KeyPartial = {
    val found =
      if (outgrown) KeyPartial.Outgrown(kept)
      else keys.result().fold[KeyPartial.Keys](KeyPartial.Outgrown(exceeded))(KeyPartial.Distinct(_))
    keys = null
    if (min > max) KeyPartial(domain, rows, hasNulls, null, null, found)
    else KeyPartial(domain, rows, hasNulls, Long.box(min), Long.box(max), found)
  }
}

private final class IntKeys(domain: LongDomain, most: DistinctLimits) extends NumberKeys(domain, most) {
  override def add(row: SpecializedGetters, ordinal: Int): Unit = {
    rows += 1
    if (row.isNullAt(ordinal)) hasNulls = true else addCode(row.getInt(ordinal).toLong)
  }
}

private final class LongKeys(domain: LongDomain, most: DistinctLimits) extends NumberKeys(domain, most) {
  override def add(row: SpecializedGetters, ordinal: Int): Unit = {
    rows += 1
    if (row.isNullAt(ordinal)) hasNulls = true else addCode(row.getLong(ordinal))
  }
}

private final class CodeKeys(domain: LongDomain, most: DistinctLimits) extends NumberKeys(domain, most) {
  override def add(row: SpecializedGetters, ordinal: Int): Unit = {
    rows += 1
    if (row.isNullAt(ordinal)) hasNulls = true else addCode(domain.longFromRow(row, ordinal))
  }
}

/** Collects keys that are objects: the keys while they are few and small, then their hashes while these are few.
  *
  * A filter of more keys than `mostValues` is a bloom filter, which needs only hashes.
  */
private final class ObjectKeys(domain: ObjectDomain, mostValues: Int, mostBytes: Long, mostHashes: Int)
    extends KeyCollector {
  private var rows = 0L
  private var hasNulls = false
  private var min: AnyRef = _
  private var max: AnyRef = _

  // One of `values` and `hashes` is not null until there are too many keys.
  private var values = new java.util.HashMap[UTF8String, UTF8String]()
  private var bytes = 0L
  private var hashes: DistinctLongs = _

  private var lastValue: UTF8String = _
  private var lastHash = 0L

  override def add(row: SpecializedGetters, ordinal: Int): Unit = {
    rows += 1
    if (row.isNullAt(ordinal)) hasNulls = true
    else if (outgrown) widen(domain.viewOfRow(row, ordinal))
    else {
      val key = domain.viewOfRow(row, ordinal)
      val view = KeyBytes.view(domain, key)
      if (values != null) addValue(key, view) else addHash(key, KeyBytes.hash(view))
    }
  }

  private def addValue(key: AnyRef, view: UTF8String): Unit =
    if (lastValue == null || lastValue != view) {
      lastValue = values.get(view)
      if (lastValue == null) {
        widen(key)
        bytes += view.numBytes
        if (values.size >= mostValues || bytes > mostBytes) {
          toHashes()
          addHash(key, KeyBytes.hash(view))
        } else {
          lastValue = view.copy()
          values.put(lastValue, lastValue)
        }
      }
    }

  private def toHashes(): Unit = {
    hashes = new DistinctLongs(Bloom.hashes, DistinctLimits(mostHashes, Long.MaxValue, mostHashes * 16L))
    val all = values.keySet.iterator
    // The hashes have a limit of their own, which may be the lower one.
    while (all.hasNext) append(KeyBytes.hash(all.next()))
    values = null
    lastValue = null
  }

  private def addHash(key: AnyRef, hash: Long): Unit = {
    widen(key)
    // Zero is the initial value of lastHash.
    if (hash != lastHash || hash == 0L) {
      lastHash = hash
      append(hash)
    }
  }

  private def append(hash: Long): Unit =
    if (hashes != null && !hashes.add(hash)) hashes = null

  /** Copies `key` only if it is kept. */
  private def widen(key: AnyRef): Unit = {
    if (min == null || domain.compare(key, min) < 0) min = domain.fromInternal(key)
    if (max == null || domain.compare(key, max) > 0) max = domain.fromInternal(key)
  }

  override def outgrown: Boolean = values == null && hashes == null

  override def result(): KeyPartial = {
    val keys: KeyPartial.Keys =
      if (values != null) KeyPartial.Distinct(ObjectValues(domain, sortedValues))
      else
        Option(hashes)
          .flatMap(_.result())
          .fold[KeyPartial.Keys](KeyPartial.Outgrown(mostHashes.toLong))(KeyPartial.Hashes(_))
    KeyPartial(domain, rows, hasNulls, min, max, keys)
  }

  private def sortedValues: Array[AnyRef] = {
    val all = new Array[AnyRef](values.size)
    val i = values.keySet.iterator
    all.indices.foreach { n =>
      all(n) = KeyBytes.key(domain, i.next().getBytes).fold(why => throw new IllegalStateException(why), identity)
    }
    java.util.Arrays.sort(all, (a: AnyRef, b: AnyRef) => domain.compare(a, b))
    all
  }
}

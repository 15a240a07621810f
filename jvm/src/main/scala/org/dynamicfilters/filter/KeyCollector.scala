package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.unsafe.types.UTF8String

/** Collects the keys of one column of a join's build side in one task. Not thread-safe.
  *
  * Memory is bounded: above the limits the distinct keys are dropped and only the range is collected, which costs two
  * comparisons a row.
  */
sealed abstract class KeyCollector {
  private var hasNulls = false

  /** Adds the key of a row. Keeps no reference to the row. */
  final def add(row: SpecializedGetters, ordinal: Int): Unit =
    if (row.isNullAt(ordinal)) hasNulls = true else addKey(row, ordinal)

  protected def addKey(row: SpecializedGetters, ordinal: Int): Unit

  /** Returns what was collected. Called once, after the last row. */
  final def result(): KeyPartial = {
    val (min, max, keys) = found()
    KeyPartial(domain, hasNulls, min, max, keys)
  }

  protected def domain: KeyDomain
  protected def found(): (AnyRef, AnyRef, KeyPartial.Keys)
}

object KeyCollector {

  /** Collects intervals, see [[IntervalCollector]]. */
  def ofIntervals(domain: LongDomain, operators: Seq[Comparison.Value], limits: KeyLimits): KeyCollector =
    new IntervalCollector(domain, operators.toIndexedSeq, limits.inMaxValues)

  /** @param partitions number of tasks that share the limits */
  def apply(domain: KeyDomain, limits: KeyLimits, partitions: Int): KeyCollector = domain match {
    case d: LongDomain => new NumberKeys(d, limits.perPartition(partitions))
    case d: ObjectDomain => new ObjectKeys(d, limits.inMaxValues, limits.perPartition(partitions))
  }
}

/** Collects keys that are longs. */
private final class NumberKeys(override val domain: LongDomain, most: DistinctLimits) extends KeyCollector {

  // min > max as long as there is no key.
  private var min = Long.MaxValue
  private var max = Long.MinValue
  private var last = 0L
  private val keys = new DistinctLongs(domain, most)

  /** Adjacent rows often have the same key, as in sorted or joined data. */
  override protected def addKey(row: SpecializedGetters, ordinal: Int): Unit = {
    val code = domain.longFromRow(row, ordinal)
    if (code != last || min > max) {
      last = code
      if (code < min) min = code
      if (code > max) max = code
      keys.add(code)
    }
  }

  override protected def found(): (AnyRef, AnyRef, KeyPartial.Keys) = {
    val distinct = keys.result().fold(KeyPartial.Outgrown(_), KeyPartial.Distinct(_))
    if (min > max) (null, null, distinct) else (Long.box(min), Long.box(max), distinct)
  }
}

/** Collects keys that are objects: the keys while they are few and small, then their hashes while these are few.
  *
  * A filter of more keys than `mostValues` is a bloom filter, which needs only hashes.
  */
private final class ObjectKeys(override val domain: ObjectDomain, mostValues: Int, most: DistinctLimits)
    extends KeyCollector {
  private var min: AnyRef = _
  private var max: AnyRef = _

  // null when there are too many: then their hashes are collected.
  private var values = new java.util.HashSet[UTF8String]()
  private var bytes = 0L
  private val hashes = new DistinctLongs(Bloom.hashes, most)

  override protected def addKey(row: SpecializedGetters, ordinal: Int): Unit = {
    val key = domain.viewOfRow(row, ordinal)
    if (hashes.outgrown) widen(key)
    else {
      val view = KeyBytes.view(domain, key)
      if (values == null) {
        widen(key)
        hashes.add(KeyBytes.hash(view))
      } else if (!values.contains(view)) {
        widen(key)
        bytes += view.numBytes
        values.add(view.copy())
        if (values.size > mostValues || bytes > most.sentBytes) {
          values.forEach(v => hashes.add(KeyBytes.hash(v)))
          values = null
        }
      }
    }
  }

  /** Copies `key` only if it is kept. */
  private def widen(key: AnyRef): Unit = {
    if (min == null || domain.compare(key, min) < 0) min = domain.copyOf(key)
    if (max == null || domain.compare(key, max) > 0) max = domain.copyOf(key)
  }

  override protected def found(): (AnyRef, AnyRef, KeyPartial.Keys) = {
    val keys: KeyPartial.Keys =
      if (values != null) KeyPartial.Distinct(ObjectValues(domain, sortedValues))
      else hashes.result().fold(KeyPartial.Outgrown(_), KeyPartial.Hashes(_))
    (min, max, keys)
  }

  private def sortedValues: Array[AnyRef] = {
    val all = values.toArray(Array.empty[UTF8String]).map(v => KeyBytes.key(domain, v.getBytes))
    java.util.Arrays.sort(all, (a: AnyRef, b: AnyRef) => domain.compare(a, b))
    all
  }
}

/** Collects in one task, for each row of a join's build side, the interval of probe values that match it.
  *
  * @param operators compare a probe value with the row's values, in their order; all must be true
  * @param most with more intervals, only the least and the greatest end are kept
  */
private final class IntervalCollector(
    override val domain: LongDomain,
    operators: IndexedSeq[Comparison.Value],
    most: Int
) extends KeyCollector {
  private var min = Long.MaxValue
  private var max = Long.MinValue
  private val kept = scala.collection.mutable.ArrayBuffer.empty[(Long, Long)]
  private var isOutgrown = false

  /** Adds the interval of a row, whose values begin at `ordinal`. If the first is NULL, nothing matches the row. */
  override protected def addKey(row: SpecializedGetters, ordinal: Int): Unit = {
    val ofRow = operators.indices.map { i =>
      Comparison.ofKey(operators(i), domain, domain.fromRow(row, ordinal + i))
    }
    ofRow.reduce(_ and _) match {
      case r: ValueFilter.Range if !r.hasNoValues =>
        val LongInterval(lo, hi) = r.longs
        min = min.min(lo)
        max = max.max(hi)
        keep(lo, hi)
      case _ => ()
    }
  }

  private def keep(lo: Long, hi: Long): Unit = if (!isOutgrown) {
    kept += ((lo, hi))
    if (kept.size >= 2 * most) {
      val merged = LongIntervals.union(domain, kept.toSeq)
      kept.clear()
      if (merged.size > most) isOutgrown = true else kept ++= merged.each
    }
  }

  override protected def found(): (AnyRef, AnyRef, KeyPartial.Keys) = {
    val keys =
      if (isOutgrown) KeyPartial.Outgrown(most.toLong, areIntervals = true)
      else KeyPartial.Distinct(LongIntervals.union(domain, kept.toSeq))
    if (min > max) (null, null, keys) else (Long.box(min), Long.box(max), keys)
  }
}

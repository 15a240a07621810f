package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters

/** Collects the hashes ([[TupleHash]]) of the tuples of keys of a join's build side in one task. Not thread-safe.
  *
  * Memory is bounded as in [[KeyCollector]]: above the limit nothing is collected any more.
  *
  * @param partitions
  *   number of tasks that share the limits
  */
final class TupleCollector(parts: IndexedSeq[TuplePart], limits: KeyLimits, partitions: Int) {
  private val domains = parts.map(_.domain).toArray
  private val nullsMatch = parts.map(_.nullsMatch).toArray
  private val most = limits.hashesPerPartition(partitions)
  private var rows = 0L
  private var last = 0L
  // null if there were too many.
  private var hashes = new DistinctLongs(TupleHash.domain, DistinctLimits(most, Long.MaxValue, most * 16L))

  /** Adds the keys of a row. Keeps no reference to the row.
    *
    * @param ordinals
    *   by part, the column of the row
    */
  def add(row: SpecializedGetters, ordinals: Array[Int]): Unit = {
    rows += 1
    if (hashes != null) {
      var hash = TupleHash.empty
      var i = 0
      while (i < domains.length) {
        if (!row.isNullAt(ordinals(i)))
          hash = TupleHash.mix(hash, TupleHash.codeOfRow(domains(i), row, ordinals(i)))
        else if (nullsMatch(i)) hash = TupleHash.mix(hash, TupleHash.nullCode)
        else return // No row of the other side equals it.
        i += 1
      }
      // Adjacent rows often have the same keys. Zero is the initial value of `last`.
      if (hash != last || hash == 0L) {
        last = hash
        if (!hashes.add(hash)) hashes = null
      }
    }
  }

  /** Whether there were too many tuples to keep. */
  def outgrown: Boolean = hashes == null

  /** Returns what was collected, as keys of [[TupleHash.domain]]. Called once. */
  def result(): KeyPartial = Option(hashes).flatMap(_.result()) match {
    case Some(found) =>
      val (min, max) = if (found.size == 0) (null, null) else (Long.box(found.least), Long.box(found.greatest))
      KeyPartial(TupleHash.domain, rows, hasNulls = false, min, max, KeyPartial.Distinct(found))
    // Bounds of hashes are of no use.
    case None =>
      KeyPartial(
        TupleHash.domain,
        rows,
        hasNulls = false,
        Long.box(Long.MinValue),
        Long.box(Long.MaxValue),
        KeyPartial.Outgrown(most.toLong)
      )
  }
}

package org.dynamicfilters.scan.parquet

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.LongDomain
import org.dynamicfilters.scan.RowRanges
import org.dynamicfilters.state.TopKSpec

/** The best key in each window of consecutive rows of a row group, collected while the key column is read. Used by
  * [[LateMaterialization]].
  *
  * The pass over the query's own predicates, which may read a wide column, starts at the best windows and stops when no
  * other window can have a better row.
  */
final class KeyWindows(spec: TopKSpec, domain: LongDomain, rowCount: Long) {
  import KeyWindows._

  private val flip = if (spec.ascending) 0L else -1L
  private val best = Array.fill(((rowCount + Rows - 1) / Rows).toInt)(Long.MaxValue)
  private val seen = new Array[Boolean](best.length)

  /** @param numbers row numbers of the batch's first n rows
    */
  def add(v: ColumnVector, n: Int, numbers: Array[Long]): Unit = {
    val checkNulls = v.hasNull
    var i = 0
    while (i < n) {
      val w = (numbers(i) / Rows).toInt
      seen(w) = true
      if (checkNulls && v.isNullAt(i)) { if (spec.nullsFirst) best(w) = Long.MinValue }
      else {
        val k = domain.longFromVector(v, i) ^ flip
        if (k < best(w)) best(w) = k
      }
      i += 1
    }
  }

  /** Returns the windows with rows in batches, best first.
    *
    * @param readsWhole whether each batch reads whole column chunks, because there is no page index
    */
  final class WindowBatches(candidates: RowRanges, readsWhole: Boolean) {
    private val growth = if (readsWhole) GrowthOfWhole else Growth
    private val order = best.indices.filter(seen(_)).sortBy(best(_))
    private var at = 0

    /** The next batch of windows; None at the end. The first batch is a handful of pages. A later batch has as many
      * windows as should give the missing rows, judged by the rows found so far, or all that are left if that is at
      * least half of them.
      *
      * Each batch reads dictionaries again, and without a page index whole column chunks. So the number of windows read
      * grows at least by the factor `growth` with each batch.
      *
      * @param found rows that passed in earlier batches
      */
    def next(found: Long): Option[WindowBatch] =
      if (at >= order.length) None
      else {
        val left = order.length - at
        val size =
          if (at == 0) FirstBatch
          else if (found == 0) left
          else {
            val wanted = math.ceil(Surplus * (spec.limit - found) / (found.toDouble / at))
            if (wanted * 2 >= left) left else math.max(wanted.toInt, at * (growth - 1))
          }
        val windows = order.slice(at, at + size)
        at += windows.length
        val b = new RowRanges.Builder
        windows.sorted.foreach(w => b.add(w * Rows, math.min((w + 1) * Rows, rowCount) - 1))
        Some(new WindowBatch(best(windows.head), b.result().intersect(candidates)))
      }
  }

  /** @param bestEncoded no row of this batch or of a later one has a better key than this
    */
  final class WindowBatch(bestEncoded: Long, val rows: RowRanges) {

    /** Whether no row of the batch is better than `key`. */
    def isNotBetterThan(key: AnyRef): Boolean = key match {
      case null => true // with nulls first, nothing is better; with nulls last, keys of NULL are not gathered
      // The least code also stands for NULL, which with nulls first is better than the value with this code.
      case k: java.lang.Long => bestEncoded >= (k.longValue ^ flip) && (bestEncoded > Long.MinValue || !spec.nullsFirst)
      case _ => false
    }
  }
}

object KeyWindows {

  /** Rows of a window; a page has at most 20,000 by default. */
  val Rows = 16384L
  private val FirstBatch = 2

  /** At most ten batches for 10M rows, and four without a page index. */
  private val Growth = 2
  private val GrowthOfWhole = 8

  /** Windows read beyond those that should suffice. */
  private val Surplus = 1.5

  def forSpec(spec: TopKSpec, rowCount: Long): Option[KeyWindows] = spec.domain match {
    case d: LongDomain => Some(new KeyWindows(spec, d, rowCount))
    case _ => None
  }
}

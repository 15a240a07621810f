package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.LongDomain
import org.dynamicfilters.state.TopKSpec

/** The best key in each window of consecutive rows of a row group, gathered while the key column is read.
  *
  * Lets the pass over the query's own predicates, which may read a wide column, start where the best rows are and stop as soon
  * as no other window can hold a better one.
  *
  * @param rowCount
  *   rows of the row group
  */
final class KeyWindows(spec: TopKSpec, domain: LongDomain, rowCount: Long) {
  import KeyWindows._

  private val flip = if (spec.ascending) 0L else -1L
  private val best = Array.fill(((rowCount + Rows - 1) / Rows).toInt)(Long.MaxValue)
  private val seen = new Array[Boolean](best.length)

  /** @param numbers
    *   row numbers of the batch's first n rows
    */
  def see(v: ColumnVector, n: Int, numbers: Array[Long]): Unit = {
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

  /** Hands out the windows with rows, best first, in parts.
    *
    * @param readsWhole
    *   whether each part reads whole chunks, for want of a page index
    */
  final class Parts(candidates: RowSet, readsWhole: Boolean) {
    private val growth = if (readsWhole) GrowthOfWhole else Growth
    private val order = best.indices.filter(seen(_)).sortBy(best(_))
    private var at = 0

    /** The next part.
      *
      * @param found
      *   rows that passed in the parts before
      * @return
      *   None at the end. The first part is what a handful of pages holds; later ones are as large as the yield of those
      *   before asks for, or all that is left where that is not much less: each part reads dictionaries anew, and without a
      *   page index whole chunks. So all windows up to it are at least `growth` times those before: few rows may be wanting
      *   for long
      */
    def next(found: Long): Option[Part] =
      if (at >= order.length) None
      else {
        val left = order.length - at
        val size =
          if (at == 0) FirstPart
          else if (found == 0) left
          else {
            val wanted = math.ceil(Surplus * (spec.limit - found) / (found.toDouble / at))
            if (wanted * 2 >= left) left else math.max(wanted.toInt, at * (growth - 1))
          }
        val windows = order.slice(at, at + size)
        at += windows.length
        val b = new RowSet.Builder
        windows.sorted.foreach(w => b.add(w * Rows, math.min((w + 1) * Rows, rowCount) - 1))
        Some(new Part(best(windows.head), b.result().intersect(candidates)))
      }
  }

  /** @param bestEncoded
    *   no row of the part, nor of any later one, has a better key than this
    */
  final class Part(bestEncoded: Long, val rows: RowSet) {

    /** Whether every row of it is at best as good as `key`. */
    def isNotBetterThan(key: AnyRef): Boolean = key match {
      case null => true // with nulls first, nothing is better; with nulls last, keys of NULL are not gathered
      // The least code also stands for NULL, which with nulls first is better than the value that has it.
      case k: java.lang.Long => bestEncoded >= (k.longValue ^ flip) && (bestEncoded > Long.MinValue || !spec.nullsFirst)
      case _ => false
    }
  }
}

object KeyWindows {

  /** Rows of a window; a page has at most 20,000 by default. */
  val Rows = 16384L
  private val FirstPart = 2

  /** Of 10M rows at most ten parts, and four. */
  private val Growth = 2
  private val GrowthOfWhole = 8

  /** Windows read beyond those that should suffice. */
  private val Surplus = 1.5

  def of(spec: TopKSpec, rowCount: Long): Option[KeyWindows] = spec.domain match {
    case d: LongDomain => Some(new KeyWindows(spec, d, rowCount))
    case _ => None
  }
}

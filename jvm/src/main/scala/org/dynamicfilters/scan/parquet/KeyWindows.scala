package org.dynamicfilters.scan.parquet

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.LongDomain
import org.dynamicfilters.scan.RowRanges
import org.dynamicfilters.state.TopKSpec

/** The best key in each window of consecutive rows of a row group, collected while the key column is read. Used by
  * [[LateMaterialization]].
  *
  * The pass over the query's own predicates, which may read a wide column, reads a few of the best windows first. If
  * they have enough rows, it reads only those of the other windows that may have a better row.
  */
final class KeyWindows(spec: TopKSpec, domain: LongDomain, rowCount: Long) {
  import KeyWindows._

  private val flip = if (spec.ascending) 0L else -1L
  private val best = Array.fill(((rowCount + Rows - 1) / Rows).toInt)(Long.MaxValue)
  private val seen = new Array[Boolean](best.length)

  /** @param numbers row numbers of the batch's first n rows */
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

  private lazy val order = best.indices.filter(seen(_)).sortBy(best(_))

  /** The rows of the best windows. */
  def bestWindows: RowRanges = rows(order.take(Best))

  /** The rows of those other windows that may have a row better than `bound`. None: no bound. Some(null): SQL NULL. */
  def otherWindows(bound: Option[AnyRef]): Others = {
    val (worse, better) = order.drop(Best).partition(w => bound.exists(isNotBetter(w, _)))
    Others(rows(better), isAll = worse.isEmpty)
  }

  private def rows(windows: Seq[Int]): RowRanges = {
    val b = new RowRanges.Builder
    windows.sorted.foreach(w => b.add(w * Rows, math.min((w + 1) * Rows, rowCount) - 1))
    b.result()
  }

  /** Whether no row of a window is better than `key`. */
  private def isNotBetter(window: Int, key: AnyRef): Boolean = key match {
    case null => true // with nulls first, nothing is better; with nulls last, NULL keys are not collected
    // The least code also stands for NULL, which with nulls first is better than the value with this code.
    case k: java.lang.Long => best(window) >= (k.longValue ^ flip) && (best(window) > Long.MinValue || !spec.nullsFirst)
    case _ => false
  }
}

object KeyWindows {

  /** @param isAll whether no window is left out */
  final case class Others(better: RowRanges, isAll: Boolean)

  /** Rows of a window; a page has at most 20,000 by default. */
  val Rows = 16384L

  /** Windows that are read first. */
  private[scan] val Best = 4

  def forSpec(spec: TopKSpec, rowCount: Long): Option[KeyWindows] = spec.domain match {
    case d: LongDomain => Some(new KeyWindows(spec, d, rowCount))
    case _ => None
  }
}

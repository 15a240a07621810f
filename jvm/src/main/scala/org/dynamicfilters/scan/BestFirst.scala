package org.dynamicfilters.scan

import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TopKSpec

/** The order in which files and row groups are read under a TopK, min or max: those with the best possible key come
  * first, those without statistics last.
  *
  * Unknown ones come last, because the others set the bound quickly, and unknown ones cannot be skipped anyway.
  */
object BestFirst {

  /** The best possible key of the rows: null for NULL, None if unknown. */
  def bestKey(b: ColumnBounds, spec: TopKSpec): Option[AnyRef] =
    if (spec.nullsFirst && b.mayHaveNulls && (b.min != null || b.max != null || !b.mayHaveValues)) Some(null)
    else if (!b.mayHaveValues) Some(null)
    else Option(if (spec.ascending) b.min else b.max)

  /** Sorts files or row groups.
    *
    * @param orders by column of the spec; with several orders, the best by each come first, then the second best by
    *   each, and so on
    */
  def sort[T](things: Seq[T], orders: Seq[(Int, TopKSpec)])(bounds: (T, Int) => ColumnBounds): Seq[T] = {
    val sorted = orders.map { case (c, spec) => things.sortWith((a, b) => before(bounds(a, c), bounds(b, c), spec)) }
    if (sorted.size == 1) sorted.head
    else {
      val chosen = new java.util.IdentityHashMap[Any, Any]
      sorted.transpose.flatten.filter(t => chosen.put(t, t) == null)
    }
  }

  def before(a: ColumnBounds, b: ColumnBounds, spec: TopKSpec): Boolean =
    (bestKey(a, spec), bestKey(b, spec)) match {
      case (Some(x), Some(y)) => spec.order.compare(x, y) < 0
      case (Some(_), None) => true
      case _ => false
    }
}

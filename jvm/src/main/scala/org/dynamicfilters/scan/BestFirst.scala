package org.dynamicfilters.scan

import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TopKSpec

/** Order in which files and row groups are read: those whose best row could be best come first, unknown ones last.
  *
  * Last, because the known ones set the bound quickly, and an unknown one cannot be skipped anyway.
  */
object BestFirst {

  /** The best key that may be among the rows: null for NULL, None if unknown. */
  def bestKey(b: ColumnBounds, spec: TopKSpec): Option[AnyRef] =
    if (spec.nullsFirst && b.mayHaveNulls && (b.min != null || b.max != null || !b.mayHaveValues)) Some(null)
    else if (!b.mayHaveValues) Some(null)
    else Option(if (spec.ascending) b.min else b.max)

  /** Things in the order in which they are read.
    *
    * @param orders
    *   by column; of several, the best by each of them come first, then the second best by each, and so on
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

package org.dynamicfilters.scan

import org.dynamicfilters.exchange.TopKSpec
import org.dynamicfilters.filter.ColumnBounds

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

  def before(a: ColumnBounds, b: ColumnBounds, spec: TopKSpec): Boolean =
    (bestKey(a, spec), bestKey(b, spec)) match {
      case (Some(x), Some(y)) => spec.order.compare(x, y) < 0
      case (Some(_), None) => true
      case _ => false
    }
}

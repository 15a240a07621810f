package org.dynamicfilters.filter

/** The row numbers of a batch that are still selected, ascending: `rows(0 until count)`. Reused from batch to batch and
  * narrowed in place by one filter after the other; belongs to one task.
  *
  * @param capacity the most rows that a batch may have
  */
final class Selection(capacity: Int) {

  /** Only the first `count` of these mean anything. */
  val rows: Array[Int] = new Array[Int](capacity)

  /** Codes of selected rows: `codes(i)` belongs to `rows(i)`. Valid only within the loops of one filter. */
  private[filter] lazy val codes: Array[Long] = new Array[Long](capacity)

  /** How many rows are selected. */
  var count: Int = 0

  /** Selects the rows 0 until n. Throws IllegalArgumentException if n exceeds the capacity. */
  def all(n: Int): Unit = {
    require(n <= rows.length, s"a batch of $n rows, but room for ${rows.length}")
    var i = 0
    while (i < n) {
      rows(i) = i
      i += 1
    }
    count = n
  }
}

package org.dynamicfilters.scan.parquet

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain}
import org.dynamicfilters.state.TopKSpec

/** Collects the `limit` best rows of a row group by the TopK's key. They are returned first, because they set the bound
  * that excludes the others.
  *
  * For a TopK over groups, collects the first row of each of the best distinct keys: more rows of a key do not tighten
  * the bound. NULL keys are added only if nulls sort first.
  */
final class FirstRows(spec: TopKSpec) {
  private final class Entry(val key: AnyRef, val row: Long)
  private val best = new java.util.TreeSet[Entry]((a: Entry, b: Entry) => {
    val byKey = spec.order.compare(a.key, b.key)
    if (byKey != 0 || spec.distinct) byKey else java.lang.Long.compare(a.row, b.row)
  })

  def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val key: AnyRef =
      if (v.isNullAt(i)) null
      else
        spec.domain match {
          case d: LongDomain => java.lang.Long.valueOf(d.longFromVector(v, i))
          case d: ObjectDomain => d.fromVector(v, i)
        }
    val isBetter = !isFull || spec.order.compare(key, worstKey) < 0
    if (isBetter && (key != null || spec.nullsFirst) && !best.contains(new Entry(key, row))) {
      best.add(new Entry(KeyDomain.copied(key), row))
      if (size > spec.limit) best.pollLast()
    }
  }

  def size: Int = best.size

  /** Row numbers, ascending. */
  def rows: Array[Long] = best.iterator.asScala.map(_.row).toArray.sorted

  /** Key of the worst collected row; null for NULL, which bounds no other row. */
  def worstKey: AnyRef = best.last.key
  def isFull: Boolean = size >= spec.limit
}

package org.dynamicfilters.scan.parquet

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain}
import org.dynamicfilters.state.TopKSpec

/** Collects the `limit` best rows of a row group by the TopK's key. They are returned first, because they set the bound
  * that excludes the others.
  *
  * NULL keys are added only if nulls sort first.
  */
abstract class FirstRows(spec: TopKSpec) {
  protected val order: java.util.Comparator[AnyRef] = spec.order
  protected val limit: Int = spec.limit

  final def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val key: AnyRef =
      if (v.isNullAt(i)) null
      else
        spec.domain match {
          case d: LongDomain => java.lang.Long.valueOf(d.longFromVector(v, i))
          case d: ObjectDomain => d.fromVector(v, i)
        }
    if ((key != null || spec.nullsFirst) && (size < limit || order.compare(key, worstKey) < 0)) add(key, row)
  }

  /** Adds a row. It is better than the worst one if there are enough. */
  protected def add(key: AnyRef, row: Long): Unit
  protected def collected: Iterator[java.lang.Long]
  def size: Int

  /** Row numbers, ascending. */
  final def rows: Array[Long] = {
    val r = collected.map(_.longValue).toArray
    java.util.Arrays.sort(r)
    r
  }

  /** Key of the worst collected row; null for NULL, which bounds no other row. */
  def worstKey: AnyRef
  final def isFull: Boolean = size >= limit
}

object FirstRows {
  def apply(spec: TopKSpec): FirstRows = if (spec.distinct) new DistinctFirstRows(spec) else new HeapOfFirstRows(spec)
}

/** A heap with the worst row on top. */
private final class HeapOfFirstRows(spec: TopKSpec) extends FirstRows(spec) {
  private final class Entry(val key: AnyRef, val row: Long)
  private val heap = new java.util.PriorityQueue[Entry](
    math.min(limit, 1024),
    (a: Entry, b: Entry) => order.compare(b.key, a.key)
  )

  override def size: Int = heap.size
  override def worstKey: AnyRef = heap.peek.key
  override protected def collected: Iterator[java.lang.Long] = heap.iterator.asScala.map(_.row)

  override protected def add(key: AnyRef, row: Long): Unit = {
    if (heap.size >= limit) heap.poll()
    heap.add(new Entry(KeyDomain.copied(key), row))
  }
}

/** For a TopK over groups: the first row of each of the best distinct keys. More rows of a key do not tighten the
  * bound.
  */
private final class DistinctFirstRows(spec: TopKSpec) extends FirstRows(spec) {
  private val first = new java.util.TreeMap[AnyRef, java.lang.Long](order)
  private var last: AnyRef = _

  override def size: Int = first.size
  override def worstKey: AnyRef = first.lastKey
  override protected def collected: Iterator[java.lang.Long] = first.values.iterator.asScala

  override protected def add(key: AnyRef, row: Long): Unit =
    if ((key == null || last == null || order.compare(key, last) != 0) && !first.containsKey(key)) {
      if (first.size >= limit) first.pollLastEntry()
      last = KeyDomain.copied(key)
      first.put(last, row)
    }
}

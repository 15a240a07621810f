package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain}
import org.dynamicfilters.state.TopKSpec

/** Collects the `limit` best rows of a row group by the TopK's key. They are returned first, because they set the bound
  * that excludes the others.
  *
  * NULL keys are added only if nulls sort first.
  */
abstract class FirstRows(spec: TopKSpec) {
  protected val limit: Int = spec.limit

  def offer(v: ColumnVector, i: Int, row: Long): Unit
  def size: Int

  /** Row numbers, ascending. */
  def rows: Array[Long]

  /** Key of the worst collected row; null for NULL, which bounds no other row. */
  def worstKey: AnyRef
  final def isFull: Boolean = size >= limit

  /** Whether all collected rows have the same key. If the order of ties matters, returning them first then excludes
    * nothing.
    */
  def allEqual: Boolean
}

object FirstRows {
  def apply(spec: TopKSpec): FirstRows = if (spec.distinct) new DistinctFirstRows(spec) else new HeapOfFirstRows(spec)

  private[scan] def key(spec: TopKSpec, v: ColumnVector, i: Int): AnyRef =
    if (v.isNullAt(i)) null
    else
      spec.domain match {
        case d: LongDomain => java.lang.Long.valueOf(d.longFromVector(v, i))
        case d: ObjectDomain => d.fromVector(v, i)
      }
}

/** A heap with the worst row on top. */
private final class HeapOfFirstRows(spec: TopKSpec) extends FirstRows(spec) {
  private final class Entry(val key: AnyRef, val row: Long)
  private val order = spec.order
  private val heap = new java.util.PriorityQueue[Entry](
    math.min(limit, 1024),
    (a: Entry, b: Entry) => order.compare(b.key, a.key)
  )

  override def size: Int = heap.size
  override def allEqual: Boolean = {
    val worst = if (heap.isEmpty) null else heap.peek.key
    var equal = !heap.isEmpty
    heap.forEach(e => if (order.compare(e.key, worst) != 0) equal = false)
    equal
  }
  override def rows: Array[Long] = {
    val r = new Array[Long](heap.size)
    var i = 0
    heap.forEach { e => r(i) = e.row; i += 1 }
    java.util.Arrays.sort(r)
    r
  }
  override def worstKey: AnyRef = heap.peek.key

  override def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val key = FirstRows.key(spec, v, i)
    if (key != null || spec.nullsFirst) {
      if (heap.size < limit) heap.add(new Entry(KeyDomain.copied(key), row))
      else if (order.compare(key, heap.peek.key) < 0) {
        heap.poll()
        heap.add(new Entry(KeyDomain.copied(key), row))
      }
    }
  }
}

/** For a TopK over groups: the first row of each of the best distinct keys. More rows of a key do not tighten the
  * bound.
  */
private final class DistinctFirstRows(spec: TopKSpec) extends FirstRows(spec) {
  private val order = spec.order
  private val first = new java.util.TreeMap[AnyRef, java.lang.Long](order)
  private var last: AnyRef = _

  override def size: Int = first.size
  override def allEqual: Boolean = false
  override def rows: Array[Long] = {
    val r = new Array[Long](first.size)
    var i = 0
    first.values.forEach { row => r(i) = row; i += 1 }
    java.util.Arrays.sort(r)
    r
  }
  override def worstKey: AnyRef = first.lastKey

  override def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val key = FirstRows.key(spec, v, i)
    if ((key != null || spec.nullsFirst) && (last == null || key == null || order.compare(key, last) != 0)) {
      if (first.size < limit || order.compare(key, first.lastKey) < 0) {
        if (!first.containsKey(key)) {
          if (first.size == limit) first.pollLastEntry()
          last = KeyDomain.copied(key)
          first.put(last, row)
        }
      }
    }
  }
}

package org.dynamicfilters.scan.parquet

import java.util.{ArrayList, Arrays}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain}
import org.dynamicfilters.state.{TaskTopK, TopKSpec}

/** Collects the `limit` best rows of a row group by the TopK's key. They are returned first, because they set the bound
  * that excludes the others. NULL keys are added only if nulls sort first.
  *
  * Collects several times `limit` rows, sorts them and keeps the best. A heap inserts almost every row if rows come in
  * the reverse order: the latest 1,000 of 6M rows took 1.3 times as long.
  */
sealed trait BestRowsOfGroup {
  def offer(v: ColumnVector, i: Int, row: Long): Unit

  /** Row numbers, ascending. */
  def rows: Array[Long]

  /** The worst of the `limit` best keys, null for NULL; None if fewer rows were offered. */
  def bound: Option[AnyRef]
}

object BestRowsOfGroup {
  def apply(spec: TopKSpec): BestRowsOfGroup = spec.domain match {
    case d: LongDomain => new LongBestRows(spec, d)
    case d: ObjectDomain => new ObjectBestRows(spec, d)
  }

  /** Number of rows that are collected before they are sorted. */
  val Many = 4096
}

private final class LongBestRows(spec: TopKSpec, domain: LongDomain) extends BestRowsOfGroup {
  private val flip = if (spec.ascending) 0L else -1L
  // Row and code of each. RadixSort uses the second half.
  private var pairs = new Array[Long](4 * BestRowsOfGroup.Many)
  private var n = 0
  private var isFull = false
  // Smaller codes are better. NULL has the least.
  private var worst = Long.MaxValue

  override def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val isNull = v.isNullAt(i)
    val code = if (isNull) Long.MinValue else domain.longFromVector(v, i) ^ flip
    if ((code < worst || !isFull) && (!isNull || spec.nullsFirst)) {
      pairs(2 * n) = row
      pairs(2 * n + 1) = code
      n += 1
      if (4 * n == pairs.length) {
        keepBest()
        if (8 * n > pairs.length) pairs = Arrays.copyOf(pairs, 2 * pairs.length)
      }
    }
  }

  private def keepBest(): Unit = if (n >= spec.limit) {
    val all = new LongArray(MemoryBlock.fromLongArray(pairs))
    val start = RadixSort.sortKeyPrefixArray(all, 0, n.toLong, 0, 7, false, true)
    n = spec.limit
    System.arraycopy(pairs, start, pairs, 0, 2 * n)
    worst = pairs(2 * n - 1)
    isFull = true
  }

  override def rows: Array[Long] = { keepBest(); Array.tabulate(n)(i => pairs(2 * i)).sorted }

  override def bound: Option[AnyRef] = {
    keepBest()
    // The least code may be NULL's, which is a bound for every row.
    Option.when(isFull)(if (spec.nullsFirst && worst == Long.MinValue) null else Long.box(worst ^ flip))
  }
}

private final class ObjectBestRows(spec: TopKSpec, domain: ObjectDomain) extends BestRowsOfGroup {
  private final class Entry(val key: AnyRef, val row: Long)
  private val entries = new ArrayList[Entry]
  private var worst: Option[AnyRef] = None
  private var bytes, bestBytes = 0L

  override def offer(v: ColumnVector, i: Int, row: Long): Unit = {
    val key = if (v.isNullAt(i)) null else domain.fromVector(v, i)
    if ((key != null || spec.nullsFirst) && worst.forall(spec.order.compare(key, _) < 0)) {
      val own = KeyDomain.copied(key)
      entries.add(new Entry(own, row))
      bytes += TaskTopK.bytesOf(own)
      if (isMany) keepBest()
    }
  }

  private def isMany: Boolean =
    entries.size >= math.max(4L * spec.limit, BestRowsOfGroup.Many) ||
      bytes > math.max(TaskTopK.BufferBytes, 2 * bestBytes)

  private def keepBest(): Unit = if (entries.size >= spec.limit) {
    entries.sort((a, b) => spec.order.compare(a.key, b.key))
    entries.subList(spec.limit, entries.size).clear()
    worst = Some(entries.get(spec.limit - 1).key)
    bytes = entries.asScala.map(e => TaskTopK.bytesOf(e.key)).sum
    bestBytes = bytes
  }

  override def rows: Array[Long] = { keepBest(); entries.asScala.map(_.row).toArray.sorted }
  override def bound: Option[AnyRef] = { keepBest(); worst }
}

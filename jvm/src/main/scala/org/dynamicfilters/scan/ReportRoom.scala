package org.dynamicfilters.scan

import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.ColumnBounds

/** The bytes left for statistics of row groups and names of files in a task's report, which may be many.
  *
  * A report is part of the task's result. Spark fails a query if a task's result, or all results above a mebibyte
  * together (`spark.task.maxDirectResultSize`), exceed `spark.driver.maxResultSize`.
  */
final class ReportRoom(private var left: Long) {

  /** Takes the bytes if so many are left. */
  def take(bytes: Long): Boolean = left >= bytes && { left -= bytes; true }
}

object ReportRoom {
  private val Most = 256L << 10
  private val Least = 16L << 10
  private val Share = 64

  def unlimited: ReportRoom = new ReportRoom(Long.MaxValue)

  /** The room of a task: its share of 1/64 of `maxResultSize`, but at least 16 KiB (within that 1/64) and at most 256
    * KiB.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes; 0 for no limit
    * @param tasks
    *   number of tasks of the stage
    */
  def of(maxResultSize: Long, tasks: Int): ReportRoom = {
    val all = if (maxResultSize <= 0) Long.MaxValue else maxResultSize / Share
    new ReportRoom(math.min(all, math.min(Most, math.max(Least, all / math.max(1, tasks)))))
  }

  // Approximate bytes when serialized by Java, rounded up.
  private val OfSplit = 300L
  private val OfRowGroup = 130L

  def bytesOf(split: LearnedSplit): Long =
    OfSplit + 2L * (split.path.length + split.column.length) +
      split.rowGroups.iterator.map(g => OfRowGroup + bytesOf(g.bounds)).sum +
      split.sizes.fold(0L)(s =>
        s.columns.iterator.map(2L * _.length).sum + 8L * s.middles.length * (s.columns.length + 1)
      )

  def bytesOf(split: UnopenedSplit): Long = OfSplit + 2L * split.path.length

  private[scan] def bytesOf(bounds: ColumnBounds): Long = bytesOf(bounds.min) + bytesOf(bounds.max)

  private def bytesOf(end: AnyRef): Long = end match {
    case s: UTF8String => s.numBytes.toLong
    case b: Array[Byte] => b.length.toLong
    case _ => 0L
  }
}

package org.dynamicfilters.scan

import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.ColumnBounds

/** What is left of the bytes that a task's report may take for what there can be much of: statistics of row groups, names of
  * files.
  *
  * A report is part of the task's result, and Spark fails a query whose results are larger than `spark.driver.maxResultSize`: a
  * single one by itself, and all of those together that are above a mebibyte (`spark.task.maxDirectResultSize`).
  *
  * @param left
  *   bytes; not thread-safe
  */
final class ReportRoom(private var left: Long) {

  /** Whether so many bytes are left; they are taken then. */
  def take(bytes: Long): Boolean = left >= bytes && { left -= bytes; true }
}

object ReportRoom {

  /** Why statistics are missing. */
  val Full = "not all statistics were sent: they count in spark.driver.maxResultSize"

  private val Most = 256L << 10
  private val Least = 16L << 10
  private val Share = 64

  def unlimited: ReportRoom = new ReportRoom(Long.MaxValue)

  /** All tasks of a stage have a 64th of what results may be, each of them 16 KiB at least where that is no more, and 256 KiB
    * at most.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes, 0 for no limit
    * @param tasks
    *   of the stage
    */
  def of(maxResultSize: Long, tasks: Int): ReportRoom = {
    val all = if (maxResultSize <= 0) Long.MaxValue else maxResultSize / Share
    new ReportRoom(math.min(all, math.min(Most, math.max(Least, all / math.max(1, tasks)))))
  }

  // As Java serializes them, roughly and rather too many.
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

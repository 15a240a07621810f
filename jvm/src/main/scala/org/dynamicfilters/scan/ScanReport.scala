package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan.parquet.{CountedSplit, UnopenedFiles, UnopenedSplit}
import org.dynamicfilters.scan.statistics.{LearnedRowGroup, LearnedSplit, SplitFacts}

/** The counters of a scan, in the order of the report's array. */
object ScanCounter extends Enumeration {
  type ScanCounter = Value

  /** Splits given to tasks, and those never opened because a filter excluded them. */
  val Splits, SplitsUnopened = Value

  /** Row groups that stock Spark would read, and those of which the scan returned no row. */
  val RowGroups, RowGroupsPruned = Value

  /** Pruned row groups by step: learned or footer statistics, dictionary, Parquet bloom filter, page index, first pass.
    */
  val ByStatistics, ByDictionary, ByBloom, ByPages, ByRows = Value
  val Rows, RowsOutput, RowsSkippedByPages = Value

  /** Compressed bytes of the requested columns in all row groups; bytes that were read; and bytes that were read again
    * after a first pass.
    */
  val BytesTotal, BytesRead, BytesReadAgain = Value

  /** Rows that were read and then dropped by a test. */
  val RowsDropped = Value

  /** Row groups read in two passes. */
  val LateMaterialized = Value

  /** Files read as in stock Spark, because of an unknown reader or a failure of our code. */
  val Fallbacks = Value

  /** Failures of our code, each with a reason. */
  val Failures = Value
}

/** What the tasks of one scan report. Merged on the driver by [[ScanAccumulator]].
  *
  * @param executionId Spark's SQL execution; -1 outside of one
  * @param executorId the executor of the tasks; the driver's id for splits that got no task
  * @param room limits the bytes of learned statistics and of splits with unknown row groups
  */
final class ScanReport(
    val executionId: Long,
    val executorId: String,
    @transient private val room: ReportRoom = ReportRoom.unlimited
) extends Serializable {

  /** Indexed by [[ScanCounter]]. */
  val counts = new Array[Long](ScanCounter.maxId)
  val learned = mutable.ArrayBuffer.empty[LearnedSplit]

  /** Reasons of fall-backs with their numbers; at most [[ScanReport.MaxReasons]]. */
  val reasons = mutable.LinkedHashMap.empty[String, Long]
  val files = new ScanFiles

  def apply(c: ScanCounter.Value): Long = counts(c.id)
  def add(c: ScanCounter.Value, n: Long): Unit = counts(c.id) += n

  def addReason(reason: Reason): Unit = {
    if (reason.isFailure) add(ScanCounter.Failures, 1)
    addReason(reason.text, 1)
  }

  private def addReason(reason: String, n: Long): Unit =
    if (reasons.contains(reason) || reasons.size < ScanReport.MaxReasons)
      reasons(reason) = reasons.getOrElse(reason, 0L) + n

  def learn(split: LearnedSplit): Unit =
    if (room.take(ReportRoom.bytesOf(split))) learned += split else addReason(Reasons.StatisticsFull)

  /** Counts a split that is opened. */
  def opened(path: String): Unit = {
    add(ScanCounter.Splits, 1)
    files.opened += PathHash(path)
  }

  /** Counts a split that was never opened.
    *
    * @param isNarrowed whether the query's own predicates may exclude row groups
    */
  def addUnopened(file: PartitionedFile, facts: SplitFacts, isNarrowed: Boolean): Unit = {
    leftUnopened(PathHash(file.urlEncodedPath))
    val end = file.start + file.length
    val groups = facts.rowGroups.getOrElse(Array.empty[LearnedRowGroup]).filter(_.countsIn(file.start, end))
    val counted = CountedSplit(groups.length.toLong, groups.iterator.map(_.rows).sum, facts.bytes.getOrElse(0L))
    addRowGroups(counted.rowGroups, counted.rows)
    add(ScanCounter.BytesTotal, counted.bytes)
    if ((!facts.hasLearned || isNarrowed) && files.unknown.size < UnopenedFiles.MaxSplits) {
      val split = UnopenedSplit(file.urlEncodedPath, file.start, end, counted)
      if (room.take(ReportRoom.bytesOf(split))) files.unknown += split
    }
  }

  /** Counts a split that is not opened, without its row groups. */
  def leftUnopened(file: Long): Unit = {
    add(ScanCounter.Splits, 1)
    add(ScanCounter.SplitsUnopened, 1)
    files.left += file
  }

  /** Counts row groups of a split that is not opened. */
  def addRowGroups(n: Long, rows: Long): Unit = {
    import ScanCounter._
    add(RowGroups, n)
    add(RowGroupsPruned, n)
    add(ByStatistics, n)
    add(Rows, rows)
  }

  def merge(other: ScanReport): Unit = {
    counts.indices.foreach(i => counts(i) += other.counts(i))
    files.merge(other.files)
    other.reasons.foreach { case (r, n) => addReason(r, n) }
    learned ++= other.learned
  }
}

object ScanReport {
  val MaxReasons = 16

  /** Number of executors whose counters are kept for an ended execution. */
  private[scan] val MostExecutors = 200
}

/** The files of a scan by path hash, and the splits whose row groups are not counted. */
final class ScanFiles extends Serializable {
  // After the execution.
  private var ended: Option[FileCounts] = None

  /** Files from which rows were returned, opened files, and files with a split that was not opened. */
  var read, opened, left = mutable.HashSet.empty[Long]

  /** Splits that were never opened and whose row groups are unknown, or of which it is unknown which row groups the
    * query's own predicates exclude; at most [[UnopenedFiles.MaxSplits]].
    */
  var unknown = mutable.HashSet.empty[UnopenedSplit]

  def counts: FileCounts = ended.getOrElse(
    FileCounts(read.size.toLong, opened.size.toLong, left.iterator.filterNot(opened).size.toLong)
  )

  /** Drops the sets. Keeps the numbers, if given. */
  private[scan] def drop(numbers: Option[FileCounts]): Unit = {
    read = mutable.HashSet.empty
    opened = mutable.HashSet.empty
    left = mutable.HashSet.empty
    unknown = mutable.HashSet.empty
    ended = numbers
  }

  def merge(other: ScanFiles): Unit = {
    read ++= other.read
    opened ++= other.opened
    left ++= other.left
    unknown ++= other.unknown.iterator.take(UnopenedFiles.MaxSplits - unknown.size)
  }
}

/** Numbers of files of a scan.
  *
  * @param read files from which rows were returned, or may have been
  * @param excluded files that were excluded and never opened
  */
final case class FileCounts(read: Long, opened: Long, excluded: Long) {

  /** Number of files from which no row was returned.
    *
    * @param total number of files of the scan; 0 if unknown
    * @param cameToEnd whether the query succeeded. If not, only excluded files count, because others may not have been
    *   reached
    */
  def pruned(total: Long, cameToEnd: Boolean): Long = skipped(total, cameToEnd, read)

  /** Number of files that were never opened; parameters as for [[pruned]]. */
  def unopened(total: Long, cameToEnd: Boolean): Long = skipped(total, cameToEnd, opened)

  private def skipped(total: Long, cameToEnd: Boolean, reached: Long): Long =
    if (cameToEnd) math.max(0L, total - reached) else math.min(total, excluded)
}

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

  /** The room of a task: 1/64 of `maxResultSize`, divided by the number of tasks. Between 16 and 256 KiB, but never
    * more than 1/64 of `maxResultSize`.
    *
    * @param maxResultSize `spark.driver.maxResultSize` in bytes; 0 for no limit
    * @param tasks number of tasks of the stage
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
    case _ => 0L
  }
}

/** A 64-bit hash of a path, to count distinct files without sending their names. */
private[scan] object PathHash {
  def apply(path: String): Long = XXH64.hashUTF8String(UTF8String.fromString(path), 42)
}

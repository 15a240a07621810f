package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.ExecutionAccumulator

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
}

/** What the tasks of one scan report. Merged on the driver by [[ScanAccumulator]].
  *
  * @param executionId
  *   Spark's SQL execution; -1 outside of one
  * @param executorId
  *   the executor of the tasks; the driver's id for splits that got no task
  * @param counts
  *   indexed by [[ScanCounter]]
  * @param filesRead
  *   path hashes of files from which rows were returned
  * @param filesOpened
  *   path hashes of opened files
  * @param filesLeft
  *   path hashes of files with a split that was not opened
  * @param reasons
  *   reasons of fall-backs with their numbers; at most [[ScanReport.MaxReasons]]
  * @param room
  *   limits the bytes of `learned` and `unknown`
  */
final class ScanReport(
    val executionId: Long,
    val executorId: String,
    @transient private val room: ReportRoom = ReportRoom.unlimited
) extends Serializable {
  val counts = new Array[Long](ScanCounter.maxId)
  var filesRead, filesOpened, filesLeft = mutable.HashSet.empty[Long]
  val reasons = mutable.LinkedHashMap.empty[String, Long]
  val learned = mutable.ArrayBuffer.empty[LearnedSplit]

  /** Splits that were never opened and whose row groups are unknown, or of which it is unknown which row groups the
    * query's own predicates exclude; at most [[UnopenedFiles.MaxSplits]].
    */
  var unknown = mutable.HashSet.empty[UnopenedSplit]

  /** The tested rows by filter, then the passed rows by filter; filters of columns come before tuples. A filter tests
    * only rows that passed the filters before it.
    */
  var tested: Array[Long] = Array.empty

  def rowsTested(filter: Int): Long = if (filter < tested.length / 2) tested(filter) else 0L
  def rowsPassed(filter: Int): Long = if (filter < tested.length / 2) tested(tested.length / 2 + filter) else 0L

  // Bit sets of columns of the spec.
  private var evaluated, selective, skipped = 0L

  /** Records that the filter of a column was applied to the statistics of a file or row group.
    *
    * @param isSelective
    *   whether it excluded rows or might have, because statistics do not prove that all rows pass
    */
  def recordEffect(column: Int, isSelective: Boolean): Unit = if (column < java.lang.Long.SIZE) {
    evaluated |= 1L << column
    if (isSelective) selective |= 1L << column
  }

  /** Records that a file or row group was skipped or never reached, so that the effect of the column's filter on it is
    * unknown.
    */
  def recordSkipped(column: Int): Unit = if (column < java.lang.Long.SIZE) skipped |= 1L << column
  def isSkipped(column: Int): Boolean = (skipped >> column & 1) == 1
  def isEvaluated(column: Int): Boolean = column < java.lang.Long.SIZE && (evaluated >> column & 1) == 1
  def isSelective(column: Int): Boolean = (selective >> column & 1) == 1

  def apply(c: ScanCounter.Value): Long = counts(c.id)
  def add(c: ScanCounter.Value, n: Long): Unit = counts(c.id) += n

  def learn(split: LearnedSplit): Unit =
    if (room.take(ReportRoom.bytesOf(split))) learned += split else addReason(Reasons.StatisticsFull)

  /** Counts a split that is opened. */
  def opened(path: String): Unit = {
    add(ScanCounter.Splits, 1)
    filesOpened += PathHash(path)
  }

  /** Counts a split that was never opened.
    *
    * @param file
    *   the split
    * @param known
    *   its row groups, if known
    * @param bytes
    *   bytes of the requested columns, if known
    * @param isNarrowed
    *   whether the query's own predicates may exclude row groups
    */
  def addUnopened(
      file: PartitionedFile,
      known: Option[Array[LearnedRowGroup]],
      bytes: Option[Long],
      isNarrowed: Boolean
  ): Unit = {
    leftUnopened(PathHash(file.urlEncodedPath))
    val end = file.start + file.length
    val groups = known.getOrElse(Array.empty[LearnedRowGroup]).filter(_.countsIn(file.start, end))
    val counted = CountedSplit(groups.length.toLong, groups.iterator.map(_.rows).sum, bytes.getOrElse(0L))
    addRowGroups(counted.rowGroups, counted.rows)
    add(ScanCounter.BytesTotal, counted.bytes)
    if ((known.isEmpty || isNarrowed) && unknown.size < UnopenedFiles.MaxSplits) {
      val split = UnopenedSplit(file.urlEncodedPath, file.start, end, counted)
      if (room.take(ReportRoom.bytesOf(split))) unknown += split
    }
  }

  /** Counts a split that is not opened, without its row groups. */
  def leftUnopened(file: Long): Unit = {
    add(ScanCounter.Splits, 1)
    add(ScanCounter.SplitsUnopened, 1)
    filesLeft += file
  }

  /** Counts row groups of a split that is not opened. */
  def addRowGroups(n: Long, rows: Long): Unit = {
    import ScanCounter._
    add(RowGroups, n)
    add(RowGroupsPruned, n)
    add(ByStatistics, n)
    add(Rows, rows)
  }

  /** Number of files from which no row was returned.
    *
    * @param total
    *   number of files of the scan
    * @param cameToEnd
    *   whether the query succeeded. If not, only excluded files count, because others may not have been reached
    */
  def filesPruned(total: Long, cameToEnd: Boolean): Long =
    if (cameToEnd) math.max(0L, total - fileCounts.read) else filesExcluded(total)

  /** Number of files that were never opened; 0 if the number of files is unknown. */
  def filesUnopened(total: Long, cameToEnd: Boolean): Long =
    if (total == 0) 0L else if (cameToEnd) math.max(0L, total - fileCounts.opened) else filesExcluded(total)

  private def filesExcluded(total: Long): Long = math.min(total, fileCounts.excluded)

  /** Numbers of files. */
  def fileCounts: FileCounts = lastCounts.getOrElse(
    FileCounts(filesRead.size.toLong, filesOpened.size.toLong, filesLeft.iterator.filterNot(filesOpened).size.toLong)
  )

  // Set if the execution has ended and its sets of files were dropped.
  private var lastCounts: Option[FileCounts] = None
  private[scan] def countedAs(counts: FileCounts): Unit = lastCounts = Some(counts)

  /** Drops the sets of files and splits. */
  private[scan] def forgetFiles(): Unit = {
    filesRead = mutable.HashSet.empty
    filesOpened = mutable.HashSet.empty
    filesLeft = mutable.HashSet.empty
    unknown = mutable.HashSet.empty
  }

  def addReason(reason: Reason, n: Long = 1): Unit = addReason(reason.text, n)

  private def addReason(reason: String, n: Long): Unit =
    if (reasons.contains(reason) || reasons.size < ScanReport.MaxReasons)
      reasons(reason) = reasons.getOrElse(reason, 0L) + n

  private[scan] def restoreEffects(evaluated: Long, selective: Long, skipped: Long): Unit = {
    this.evaluated = evaluated
    this.selective = selective
    this.skipped = skipped
  }

  def merge(other: ScanReport): Unit = {
    var i = 0
    while (i < counts.length) { counts(i) += other.counts(i); i += 1 }
    tested = tested.zipAll(other.tested, 0L, 0L).map { case (a, b) => a + b }
    evaluated |= other.evaluated
    selective |= other.selective
    skipped |= other.skipped
    filesRead ++= other.filesRead
    filesOpened ++= other.filesOpened
    filesLeft ++= other.filesLeft
    other.reasons.foreach { case (r, n) => addReason(r, n) }
    learned ++= other.learned
    unknown ++= other.unknown.iterator.take(UnopenedFiles.MaxSplits - unknown.size)
  }

  private def writeReplace(): AnyRef = new PackedReport(
    executionId,
    executorId,
    counts ++ Array(evaluated, selective, skipped) ++ tested,
    Array(filesRead, filesOpened, filesLeft).map(_.toArray),
    reasons.keys.toArray,
    reasons.values.toArray,
    learned.toArray,
    unknown.toArray
  )
}

/** The serialized form of a [[ScanReport]], which is part of every task's result. Arrays take far fewer bytes than
  * collections.
  *
  * @param counts
  *   the counters, then the three bit sets of columns, then `tested`
  */
private final class PackedReport(
    executionId: Long,
    executorId: String,
    counts: Array[Long],
    files: Array[Array[Long]],
    reasons: Array[String],
    times: Array[Long],
    learned: Array[LearnedSplit],
    unknown: Array[UnopenedSplit]
) extends Serializable {
  private def readResolve(): AnyRef = {
    val report = new ScanReport(executionId, executorId)
    counts.copyToArray(report.counts)
    Array(report.filesRead, report.filesOpened, report.filesLeft).zip(files).foreach { case (to, from) => to ++= from }
    val Array(evaluated, selective, skipped) = counts.slice(report.counts.length, report.counts.length + 3)
    report.restoreEffects(evaluated, selective, skipped)
    report.tested = counts.drop(report.counts.length + 3)
    report.reasons ++= reasons.zip(times)
    report.learned ++= learned
    report.unknown ++= unknown
    report
  }
}

object ScanReport {
  val MaxReasons = 16

  /** Number of executors whose counters are kept for an ended execution. */
  private[scan] val MostExecutors = 200
}

/** Numbers of files of a scan.
  *
  * @param read
  *   files from which rows were returned
  * @param excluded
  *   files that were excluded and never opened
  */
final case class FileCounts(read: Long, opened: Long, excluded: Long)

/** Carries a [[ScanReport]] to the driver.
  *
  * @param sink
  *   receives learned statistics on the driver at once, so that the next query can use them. Must return quickly:
  *   merging happens on the scheduler's thread
  */
final class ScanAccumulator(@transient private val sink: LearnedSplit => Unit)
    extends ExecutionAccumulator[ScanReport, Map[Long, ScanReport]] {
  override protected def keyOf(r: ScanReport): (Long, String) = (r.executionId, r.executorId)
  override protected def merged(before: Option[ScanReport], r: ScanReport): ScanReport = {
    if (sink != null) {
      r.learned.foreach(sink)
      r.learned.clear()
    }
    val all = before.getOrElse(new ScanReport(r.executionId, r.executorId))
    all.merge(r)
    all
  }
  override def copy(): ScanAccumulator = {
    val c = new ScanAccumulator(null)
    kept.values.foreach(c.add)
    c
  }

  /** By SQL execution. */
  override def value: Map[Long, ScanReport] = synchronized {
    kept.values.groupBy(_.executionId).map { case (id, rs) =>
      val c = new ScanReport(id, "")
      rs.foreach(c.merge)
      ended.get(id).foreach(c.countedAs)
      id -> c
    }
  }

  @transient private lazy val ended = mutable.HashMap.empty[Long, FileCounts]

  /** Called when an execution has ended. Keeps only the numbers of its files: the hashes of a hundred reports with ten
    * thousand files each took 70 MB.
    */
  def endedExecution(executionId: Long): Unit = synchronized {
    value.get(executionId).foreach(r => ended(executionId) = r.fileCounts)
    ended.filterInPlace((id, _) => kept.keysIterator.exists(_._1 == id))
    kept.valuesIterator.filter(_.executionId == executionId).foreach(_.forgetFiles())
    // Bounds memory: each report of an executor takes about a kilobyte.
    together(executionId, ScanReport.MostExecutors) { others =>
      val sum = new ScanReport(executionId, "others")
      others.foreach(sum.merge)
      sum
    }
  }

  /** The reports of an execution by executor. */
  def byExecutor(executionId: Long): Seq[ScanReport] = synchronized {
    kept.valuesIterator.filter(_.executionId == executionId).toSeq.sortBy(_.executorId).map { r =>
      val c = new ScanReport(executionId, r.executorId)
      c.merge(r)
      c
    }
  }
}

/** One scan in all executions of one plan, as reports show it.
  *
  * @param splitsTotal
  *   number of splits without filters, if known
  * @param recount
  *   counts the unopened files of an ended execution. Dropped after that, because it holds the plan
  * @param fromStart
  *   ids of filters that were complete when the scan started
  */
final class ScanRun(
    val scanId: Long,
    val tableName: String,
    val format: String,
    val filterIds: Seq[Long],
    val filesTotal: Long,
    val accumulator: ScanAccumulator,
    splitsTotal: Option[Long] = None,
    private var recount: Option[Long => Unit] = None,
    val fromStart: Set[Long] = Set.empty
) {
  def countUnopened(executionId: Long): Unit = recount.foreach(_(executionId))
  def ended(executionId: Long): Unit = {
    recount = None
    accumulator.endedExecution(executionId)
  }

  /** Whether the scan reached all of its splits in an execution; a LIMIT may end it earlier. */
  def sawAllSplits(report: ScanReport): Boolean = splitsTotal.exists(_ <= report(ScanCounter.Splits))

  /** The counters of an execution so far. */
  def report(executionId: Long): ScanReport =
    accumulator.value.getOrElse(executionId, new ScanReport(executionId, ""))
}

package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.state.ExecutionAccumulator

/** What a scan counts. The order is the order in the accumulator's array. */
object ScanCounter extends Enumeration {
  type ScanCounter = Value

  /** Parts of files given to tasks, and those never opened because a filter excluded them. */
  val Splits, SplitsUnopened = Value

  /** Row groups that stock Spark would read, and those of which no row was handed on. */
  val RowGroups, RowGroupsPruned = Value

  /** By what a row group was pruned: learned or footer statistics, dictionary, Parquet bloom filter, page index, the first
    * pass over the filter's columns.
    */
  val ByStatistics, ByDictionary, ByBloom, ByPages, ByRows = Value
  val Rows, RowsOutput, RowsSkippedByPages = Value

  /** Compressed bytes of the columns asked for, in all row groups; those of them that were read; and those that were read
    * another time, after a first pass.
    */
  val BytesTotal, BytesRead, BytesReadAgain = Value

  /** Rows that were read, and then left out of what was handed on. */
  val RowsDropped = Value

  /** Row groups read in two passes. */
  val LateMaterialized = Value

  /** Files read without us: an iterator we do not know, or an internal failure. */
  val Fallbacks = Value
}

/** What the tasks of one scan report, merged on the driver.
  *
  * @param executionId
  *   Spark's SQL execution, -1 where there is none
  * @param executorId
  *   whose tasks counted; the driver's for what got no task
  * @param counts
  *   indexed by [[ScanCounter]]
  * @param filesRead
  *   hashes of the paths of files of which rows were handed on
  * @param filesOpened
  *   the same of files that were opened
  * @param filesLeft
  *   the same of files of which a part was left unopened
  * @param reasons
  *   why something fell back, with how often; at most [[ScanReport.MaxReasons]]
  * @param room
  *   for what was learned and for files that were not opened
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

  /** Never opened, and nothing is known of them, or not which of their row groups the query's own predicates exclude; at most
    * [[UnopenedFiles.MaxSplits]].
    */
  var unknown = mutable.HashSet.empty[UnopenedSplit]

  /** Of the scan's filters, columns first: rows that were tested by it, and after all these, those of them that passed. Filters
    * are asked one after the other, so these are rows that the ones before it left.
    */
  var tested: Array[Long] = Array.empty

  def rowsTested(filter: Int): Long = if (filter < tested.length / 2) tested(filter) else 0L
  def rowsPassed(filter: Int): Long = if (filter < tested.length / 2) tested(tested.length / 2 + filter) else 0L

  // Bits by column of the spec.
  private var judged, decisive, overlooked = 0L

  /** Files or row groups were looked at with the filter of a column of the spec.
    *
    * @param isDecisive
    *   whether it left something out, or might have: statistics do not say that all rows pass it
    */
  def judge(column: Int, isDecisive: Boolean): Unit = if (column < java.lang.Long.SIZE) {
    judged |= 1L << column
    if (isDecisive) decisive |= 1L << column
  }

  /** Files or row groups were left out or never reached, and nothing is known of what the filter of a column would have said. */
  def overlook(column: Int): Unit = if (column < java.lang.Long.SIZE) overlooked |= 1L << column
  def isOverlooked(column: Int): Boolean = (overlooked >> column & 1) == 1
  def isJudged(column: Int): Boolean = column < java.lang.Long.SIZE && (judged >> column & 1) == 1
  def isDecisive(column: Int): Boolean = (decisive >> column & 1) == 1

  def apply(c: ScanCounter.Value): Long = counts(c.id)
  def add(c: ScanCounter.Value, n: Long): Unit = counts(c.id) += n

  def learn(split: LearnedSplit): Unit =
    if (room.take(ReportRoom.bytesOf(split))) learned += split else addReason(ReportRoom.Full)

  /** Counts a split that is opened. */
  def opened(path: String): Unit = {
    add(ScanCounter.Splits, 1)
    filesOpened += PathHash(path)
  }

  /** Counts a split that was never opened.
    *
    * @param file
    *   the split, if its row groups could be counted later
    * @param known
    *   its row groups, if anything is known of them
    * @param bytes
    *   of the columns asked for, if they are known
    * @param isNarrowed
    *   whether the query's own predicates may exclude some of the row groups
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

  /** Counts a split, and nothing of what is in it. */
  def leftUnopened(file: Long): Unit = {
    add(ScanCounter.Splits, 1)
    add(ScanCounter.SplitsUnopened, 1)
    filesLeft += file
  }

  /** Counts row groups of a split that was never opened. */
  def addRowGroups(n: Long, rows: Long): Unit = {
    import ScanCounter._
    add(RowGroups, n)
    add(RowGroupsPruned, n)
    add(ByStatistics, n)
    add(Rows, rows)
  }

  /** Files of which no row was handed on.
    *
    * @param total
    *   files of the scan
    * @param cameToEnd
    *   else only those that were excluded count: others may not have been reached
    */
  def filesPruned(total: Long, cameToEnd: Boolean): Long =
    if (cameToEnd) math.max(0L, total - fileCounts.read) else filesExcluded(total)

  /** The same of files that were never opened; 0 where the number of files is not known. */
  def filesUnopened(total: Long, cameToEnd: Boolean): Long =
    if (total == 0) 0L else if (cameToEnd) math.max(0L, total - fileCounts.opened) else filesExcluded(total)

  private def filesExcluded(total: Long): Long = math.min(total, fileCounts.excluded)

  /** How many files there are of each kind. */
  def fileCounts: FileCounts = lastCounts.getOrElse(
    FileCounts(filesRead.size.toLong, filesOpened.size.toLong, filesLeft.iterator.filterNot(filesOpened).size.toLong)
  )

  // Of an execution that has ended, whose files are forgotten.
  private var lastCounts: Option[FileCounts] = None
  private[scan] def countedAs(counts: FileCounts): Unit = lastCounts = Some(counts)

  /** Forgets which files and splits there were. */
  private[scan] def forgetFiles(): Unit = {
    filesRead = mutable.HashSet.empty
    filesOpened = mutable.HashSet.empty
    filesLeft = mutable.HashSet.empty
    unknown = mutable.HashSet.empty
  }

  def addReason(reason: String, n: Long = 1): Unit =
    if (reasons.contains(reason) || reasons.size < ScanReport.MaxReasons)
      reasons(reason) = reasons.getOrElse(reason, 0L) + n

  private[scan] def judgedAs(judged: Long, decisive: Long, overlooked: Long): Unit = {
    this.judged = judged
    this.decisive = decisive
    this.overlooked = overlooked
  }

  def merge(other: ScanReport): Unit = {
    var i = 0
    while (i < counts.length) { counts(i) += other.counts(i); i += 1 }
    tested = tested.zipAll(other.tested, 0L, 0L).map { case (a, b) => a + b }
    judged |= other.judged
    decisive |= other.decisive
    overlooked |= other.overlooked
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
    counts ++ Array(judged, decisive, overlooked) ++ tested,
    Array(filesRead, filesOpened, filesLeft).map(_.toArray),
    reasons.keys.toArray,
    reasons.values.toArray,
    learned.toArray,
    unknown.toArray
  )
}

/** A report on its way: it comes with every task's result, and the classes of collections took most of its bytes.
  *
  * @param counts
  *   and after them, which columns' filters were judged, were decisive, were overlooked; then `tested`
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
    val Array(judged, decisive, overlooked) = counts.slice(report.counts.length, report.counts.length + 3)
    report.judgedAs(judged, decisive, overlooked)
    report.tested = counts.drop(report.counts.length + 3)
    report.reasons ++= reasons.zip(times)
    report.learned ++= learned
    report.unknown ++= unknown
    report
  }
}

object ScanReport {
  val MaxReasons = 16

  /** Executors of which an execution that has ended keeps figures. */
  private[scan] val MostExecutors = 200
}

/** Files of a scan.
  *
  * @param read
  *   those of which rows were handed on
  * @param excluded
  *   those that were left out and never opened
  */
final case class FileCounts(read: Long, opened: Long, excluded: Long)

/** Carries a [[ScanReport]] to the driver.
  *
  * @param sink
  *   on the driver, takes what was learned of files at once, so that the next query can use it; must return quickly, because
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

  /** An execution has ended: of its files only their numbers are kept. A hundred reports of scans of ten thousand files each had
    * 70 MB of their hashes.
    */
  def endedExecution(executionId: Long): Unit = synchronized {
    value.get(executionId).foreach(r => ended(executionId) = r.fileCounts)
    ended.filterInPlace((id, _) => kept.keysIterator.exists(_._1 == id))
    kept.valuesIterator.filter(_.executionId == executionId).foreach(_.forgetFiles())
    // A kilobyte each, of all scans of a hundred reports.
    together(executionId, ScanReport.MostExecutors) { others =>
      val sum = new ScanReport(executionId, "others")
      others.foreach(sum.merge)
      sum
    }
  }

  /** What each executor counted in an execution. */
  def byExecutor(executionId: Long): Seq[ScanReport] = synchronized {
    kept.valuesIterator.filter(_.executionId == executionId).toSeq.sortBy(_.executorId).map { r =>
      val c = new ScanReport(executionId, r.executorId)
      c.merge(r)
      c
    }
  }
}

/** One scan in the executions of one plan.
  *
  * @param splitsTotal
  *   splits that the scan would read without filters, if that is known
  * @param recount
  *   counts, in an execution that has ended, what the scan left unopened; forgotten after that, because it holds the plan
  * @param fromStart
  *   filters that were complete when the scan was started
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

  /** Whether the scan came to all of its splits in an execution; a LIMIT may end it before. */
  def sawAllSplits(report: ScanReport): Boolean = splitsTotal.exists(_ <= report(ScanCounter.Splits))

  /** What was counted in an execution so far. */
  def report(executionId: Long): ScanReport =
    accumulator.value.getOrElse(executionId, new ScanReport(executionId, ""))
}

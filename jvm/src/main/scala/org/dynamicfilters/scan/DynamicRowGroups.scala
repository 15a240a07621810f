package org.dynamicfilters.scan

import java.io.{Closeable, InterruptedIOException}
import java.nio.channels.ClosedByInterruptException

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.TaskKilledException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.{ColumnBounds, OwnFailure, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Cost, StepTracker, Tested}

/** Decides which rows of a split are read, row group by row group, with the newest filters. Used by
  * [[DynamicFileIterator]].
  *
  * The steps (`decide`), each only if the steps before left something: statistics, dictionary, bloom filter, page
  * index, first pass over the filters' columns, first pass over the columns of the query's own predicates.
  * [[FileColumn]] reads what the file says of a column. Rows that are read without a first pass may be tested before
  * they are returned ([[BatchSelector]]). Row groups are read best first by the order of a TopK's filter.
  *
  * A row group of which many rows pass a TopK's filter is returned in two parts: first its `limit` best rows, then the
  * rest, if it still passes after the producer has seen the first part. Each row is returned at most once.
  *
  * Failures in this code never fail the query: the rest of the split is read as in stock Spark.
  *
  * @param askedAt
  *   a time before the file was opened, in milliseconds since 1970
  */
final class DynamicRowGroups(task: TaskScan, access: ParquetReaderAccess, file: PartitionedFile, askedAt: Long)
    extends Closeable
    with Logging {
  import ScanCounter._

  private val spec = task.spec
  private val report = task.report
  private val reader = access.fileReader
  private val dataColumns: IndexedSeq[(Int, ScanColumn)] =
    spec.columns.zipWithIndex.collect { case (c, i) if !c.isPartitionColumn => (i, c) }
  // By column of the spec, the index in dataColumns; -1 for a partition column.
  private val dataIndex: IndexedSeq[Int] = spec.columns.indices.map(i => dataColumns.indexWhere(_._1 == i))
  private val fileColumns = dataColumns.map { case (_, c) => new FileColumn(access, c.ordinal, c.domain) }
  private val columnBytes = new ColumnBytes(access)
  private val passes = new LateMaterialization(task, access, file, dataColumns, fileColumns, columnBytes)
  private val learner = new StatisticsLearner(task, access, file, dataColumns, fileColumns, askedAt)
  private var failed = false

  private val queue = {
    // Some writers put a row group without rows into the file of an empty table, which Parquet refuses to read.
    val groups = reader.getRowGroups.asScala.zipWithIndex.collect {
      case (b, i) if b.getRowCount > 0 =>
        // Rows are selected by number only if all columns have a page index.
        val left = if (columnBytes.hasPageIndex(b)) access.rowsLeft(i).map(ParquetRowRanges.rows) else None
        new RowGroup(b, i, boundsOf(b), left.filter(_.count < b.getRowCount))
    }.toArray
    val orders = spec.orders.collect { case (c, topK) if dataIndex(c) >= 0 => (dataIndex(c), topK) }
    val ordered =
      if (groups.length > 1 && orders.nonEmpty) BestFirst.sort(groups.toSeq, orders)(_.bounds(_)) else groups.toSeq
    scala.collection.mutable.ArrayDeque.from(ordered)
  }

  // Fixed filters exclude these row groups at the start, whatever is read later.
  private val leftOut: Seq[RowGroup] =
    if (!task.isFixed) Nil
    else {
      val pruner = task.pruner(task.allFilters().zip(spec.columns).map { case (f, c) =>
        if (c.ref.topK.isDefined) ValueFilter.All else f
      })
      // Uses the footer alone: learned statistics may differ between attempts.
      queue.removeAll { g =>
        pruner.excludes(i =>
          if (dataIndex(i) >= 0) fileColumns(dataIndex(i)).bounds(g.block) else task.files.certainBounds(file, i)
        )
      }.toSeq
    }
  leftOut.foreach(record)
  locally {
    report.add(RowGroups, (queue.size + leftOut.size).toLong)
    report.add(RowGroupsPruned, leftOut.size.toLong)
    report.add(ByStatistics, leftOut.size.toLong)
    report.add(Rows, access.totalRowCount)
    report.add(BytesTotal, columnBytes.splitBytes)
  }

  private def boundsOf(block: BlockMetaData): Array[ColumnBounds] =
    fileColumns.indices.map { i =>
      val fromFooter = fileColumns(i).bounds(block)
      // Learned bounds replace missing bounds of the footer, as for INT96.
      if (fromFooter.min == null && fromFooter.max == null) learner.learned(block, i).getOrElse(fromFooter)
      else fromFooter
    }.toArray

  /** The next rows to read, never an empty store; null at the end. */
  def next(): PageReadStore = {
    while (queue.nonEmpty) {
      val group = queue.head
      if (group ne current) {
        recordCost(group)
        task.reachesRowGroup(group.block.getStartingPos)
      }
      val store = if (failed) readRest(group) else admit(group)
      if (store != null && store.getRowCount > 0) {
        report.add(RowsOutput, store.getRowCount)
        group.hasReturnedRows = true
        return store
      }
    }
    isExhausted = true
    null
  }

  /** The rows to return of a batch of the current row group. */
  def tested(batch: ColumnarBatch): ColumnarBatch =
    if (!spec.testsRead || failed || current.hasChosenRows) batch
    else if (isWorthTesting(current)) passes.byAll(batch)
    else passes.byOthers(batch)

  /** Whether to test rows by filters of joins in the same stage. */
  private def isWorthTesting(group: RowGroup): Boolean = {
    if (group.isTested.isEmpty && group.isComparable && group.leftCount >= RowTests.MeasurableRows)
      try {
        val now = task.filters()
        if (now.indices.exists(i => spec.forOwnStage(i) && now(i) != ValueFilter.All))
          group.isTested = Some(task.steps.ownStageTests.isTaken())
      } catch {
        // The test fails too, and reports that.
        case OwnFailure(_) =>
      }
    group.isTested.getOrElse(true)
  }

  private val isAlone = queue.size == 1
  private var current: RowGroup = _
  private var (since, processorSince) = (0L, 0L)
  private var thread: Thread = _
  private var isExhausted = false

  /** Records the cost of the previous row group once its rows are consumed. */
  private def recordCost(next: RowGroup): Unit = {
    val now = System.nanoTime()
    if (current != null) {
      if (current.isComparable && task.comparesTimes) {
        if (current.isLate.exists(current.firstPass.took(_, current.leftCount, now - since)))
          report.addReason(Reasons.ReadAtOnce)
        // Tests do not change what is read, so processor time is compared: it is more exact on a busy machine.
        def nanos = ThreadTime.nanos - processorSince
        if (
          (thread eq Thread.currentThread) && current.isTested.exists(
            task.steps.ownStageTests.took(_, current.leftCount, nanos)
          )
        )
          report.addReason(Reasons.RowsNotTested)
      }
      task.tookRowGroup(now - since)
    }
    // The first row group includes the cost of opening the split, two to ten times the cost of the next one.
    if (next != null) next.isComparable = current != null || isAlone
    current = next
    since = now
    processorSince = ThreadTime.nanos
    thread = Thread.currentThread
  }

  private def admit(group: RowGroup): PageReadStore =
    // Counted after the read: a failing read leaves the row group unchanged, for `readRest`.
    try
      decide(group) match {
        case Decision.Prune(by) =>
          queue.removeHead()
          if (!group.hasReturnedRows) {
            report.add(RowGroupsPruned, 1)
            report.add(by, 1)
          }
          null
        case Decision.ReadAll =>
          val store = reader.readFilteredRowGroup(group.index)
          queue.removeHead()
          columnBytes.count(report, reader, group.index, None, None)
          store
        case Decision.Read(rows) =>
          val store = readRows(group, rows)
          queue.removeHead()
          store
        case Decision.ReadFirst(rows) =>
          val store = readRows(group, rows)
          group.firstPart = Some(rows)
          store
      }
    catch {
      case e @ (_: TaskKilledException | _: InterruptedIOException | _: ClosedByInterruptException) => throw e
      case OwnFailure(e) =>
        // If the file is at fault, reading it as Spark does shows Spark's own error.
        failed = true
        task.overlookAll()
        report.add(Fallbacks, 1)
        report.addReason(Reasons.Failed(e, "filtering a row group"))
        logWarning(s"Dynamic filters: reading ${file.urlEncodedPath} without filters from here on", e)
        null
    }

  private def readRows(group: RowGroup, rows: RowRanges): PageReadStore = {
    val store = SelectedRows.read(reader, group.index, group.rowCount, rows, columnBytes.hasPageIndex(group.block))
    columnBytes.count(report, reader, group.index, None, Some(rows))
    store
  }

  private def readRest(group: RowGroup): PageReadStore = {
    queue.remove(queue.indexOf(group))
    group.firstPart match {
      case None =>
        val store = reader.readFilteredRowGroup(group.index)
        columnBytes.count(report, reader, group.index, None, None)
        store
      case Some(done) =>
        val rest = done.complement(group.rowCount)
        if (rest.isEmpty) null else readRows(group, rest)
    }
  }

  private def decide(group: RowGroup): Decision = {
    val pruner = task.pruner(task.filters())
    val now = pruner.filters
    record(group)
    if (task.tuples().contains(ValueFilter.Nothing) || pruner.excludes(boundsOf(group, _)))
      return Decision.Prune(ByStatistics)
    val columns = dataColumns.indices
    val either = Disjunction.from(spec.either.map(i => Disjunct(i, now(i), pruner.effect(i, boundsOf(group, i)))))
    // If the best rows were returned before, only worse rows are left.
    if (group.firstPart.isDefined && group.restBounds.exists(pruner.effect(dataColumns(0)._1, _) == Pruner.PassesNone))
      return Decision.Prune(ByRows)
    // A filter of a disjunction excludes nothing by itself.
    val effects = columns.map { c =>
      val (i, column) = dataColumns(c)
      if (column.either) Pruner.PassesAll else pruner.effect(i, group.bounds(c))
    }
    val filters = dataColumns.map { case (i, _) => now(i) }
    val undecided = columns.filter(effects(_) != Pruner.PassesAll)
    val ofValues = columns.filter(effects(_) == Pruner.PassesSome)
    if (group.firstPart.isEmpty) {
      // For a one-sided range, statistics say as much as a dictionary does.
      def noBounds(i: Int) = group.bounds(i).min == null && group.bounds(i).max == null
      val inDictionary = ofValues.filter(i => noBounds(i) || filters(i).points.isDefined)
      if (
        inDictionary
          .exists(i => excludes(i, group, task.steps.dictionaries, _.dictionaryCouldPass(group.block, filters(i))))
      )
        return Decision.Prune(ByDictionary)
      if (ofValues.exists(i => excludes(i, group, task.steps.blooms, _.bloomCouldPass(group.block, filters(i)))))
        return Decision.Prune(ByBloom)
    }
    val byFilters =
      if (!columnBytes.hasPageIndex(group.block)) Nil
      else
        undecided.flatMap(c => rowsOfPages(group, pruner, dataColumns(c)._1)) ++
          either.flatMap(_.rowsOfPages(rowsOfPages(group, pruner, _)))
    val pages = (group.left ++ byFilters).reduceOption(_ intersect _)
    if (pages.exists(_.isEmpty)) return Decision.Prune(ByPages)
    if (group.firstPart.isEmpty) pages.foreach(p => report.add(RowsSkippedByPages, group.leftCount - p.count))
    val eitherPass = either.flatMap(
      _.pass(i => Option(dataIndex(i)).filter(d => d >= 0 && fileColumns(d).isStored).map(dataColumns(_)._2.ordinal))
    )
    // Leaves out filters that all rows pass, or all but a few NULLs.
    val selectiveOnly =
      columns.map(c => if (effects(c).isSelective(hasFewNulls(group, c))) filters(c) else ValueFilter.All)
    passes.decide(group, selectiveOnly, eitherPass, pages, learner)
  }

  /** The rows in pages that a filter does not exclude; None for a partition column, or without a page index for the
    * column.
    */
  private def rowsOfPages(group: RowGroup, pruner: Pruner, column: Int): Option[RowRanges] =
    Option(dataIndex(column))
      .filter(_ >= 0)
      .flatMap(fileColumns(_).pages(group.block))
      .map(pruner.rowsOfPages(column, _))

  private def record(group: RowGroup): Unit = if (group.firstPart.isEmpty) {
    val pruner = task.pruner(task.allFilters())
    dataColumns.indices.foreach(c =>
      pruner.recordRowGroup(report, dataColumns(c)._1, group.bounds(c), hasFewNulls(group, c))
    )
  }

  /** Whether a column has too few NULLs to make a first pass with a join's filter worth its cost. */
  private def hasFewNulls(group: RowGroup, column: Int): Boolean =
    spec.isForJoinsOnly && fileColumns(column)
      .nulls(group.block)
      .exists(_ < group.rowCount * (1 - spec.giveUpSelectivity))

  /** Whether a dictionary or bloom filter excludes the row group. Looks into it only if its tracker says that this has
    * paid lately.
    *
    * @param column
    *   position among the filtered columns of the files
    * @param couldPass
    *   the lookup; None if the file has nothing to look into
    */
  private def excludes(
      column: Int,
      group: RowGroup,
      trackers: IndexedSeq[StepTracker],
      couldPass: FileColumn => Option[Boolean]
  ): Boolean = {
    val tracker = trackers(dataColumns(column)._1)
    tracker.isTaken() && {
      val from = ThreadTime.nanos
      val answer = couldPass(fileColumns(column))
      val spent = ThreadTime.nanos - from
      // Reading the row group would have taken many times as long.
      val saved = if (answer.contains(false)) spent * StepTracker.FirstPause else 0L
      // Without a lookup nothing was decided.
      val decided = if (answer.isDefined) group.rowCount else 0L
      if (tracker.add(Tested(decided, if (answer.contains(true)) group.rowCount else 0, Cost(spent, saved, 0))))
        report.addReason(Reasons.SeldomLookedUp)
      answer.contains(false)
    }
  }

  private def boundsOf(group: RowGroup, column: Int): ColumnBounds =
    if (dataIndex(column) >= 0) group.bounds(dataIndex(column)) else task.files.certainBounds(file, column)

  override def close(): Unit =
    try {
      // The query needed no more rows, for example because of a LIMIT.
      if (queue.nonEmpty) task.overlookAll()
      // The cost of a row group is known only if it was read to its end.
      if (isExhausted) recordCost(null)
      passes.close()
    } catch {
      // Another thread of the task may still be reading, for example to feed a script.
      case OwnFailure(e) => report.addReason(Reasons.Failed(e, "a file was closed"))
    } finally
      try learner.finish(reader.getFooter.getBlocks.asScala.toSeq)
      catch { case NonFatal(e) => report.addReason(Reasons.Failed(e, "learning statistics")) }
}

/** The state of one row group while [[DynamicRowGroups]] reads it.
  *
  * @param index
  *   position among the reader's row groups
  * @param bounds
  *   by filtered column of the files
  * @param left
  *   rows that the query's static predicates leave by the page index, None for all; stock Spark would read only these
  */
final class RowGroup(
    val block: BlockMetaData,
    val index: Int,
    val bounds: Array[ColumnBounds],
    val left: Option[RowRanges]
) {
  val rowCount: Long = block.getRowCount
  val leftCount: Long = left.fold(rowCount)(_.count)

  /** The first part, if the row group is returned in two parts and the first was returned. */
  var firstPart: Option[RowRanges] = None

  /** Whether the time of this row group may be compared with that of others. */
  var isComparable = false

  /** Whether the rows to read were found by a first pass. */
  var hasChosenRows = false

  /** The tracker that decided whether filter columns are read first. */
  var firstPass: StepTracker = _

  /** Whether filter columns were read first; None if there was no choice, or if all rows were read after a first pass.
    */
  var isLate: Option[Boolean] = None

  /** Whether rows are tested by filters of joins in the same stage after a plain read; None if there was no choice. */
  var isTested: Option[Boolean] = None

  /** Bounds of the first filtered column in the second part. */
  var restBounds: Option[ColumnBounds] = None
  var hasReturnedRows = false
}

/** What is read of a row group. */
sealed trait Decision
object Decision {

  /** Nothing more is read. */
  final case class Prune(by: ScanCounter.Value) extends Decision

  /** All rows are read, as in stock Spark. */
  case object ReadAll extends Decision
  final case class Read(rows: RowRanges) extends Decision

  /** These rows are read as the first part; the rest is decided after them. */
  final case class ReadFirst(rows: RowRanges) extends Decision
}

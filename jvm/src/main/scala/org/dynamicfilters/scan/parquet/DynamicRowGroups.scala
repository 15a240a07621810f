package org.dynamicfilters.scan.parquet

import java.io.{Closeable, InterruptedIOException}
import java.nio.channels.ClosedByInterruptException

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.TaskKilledException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.{ColumnBounds, PluginFailure, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan._
import org.dynamicfilters.state.StepTracker

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
  */
final class DynamicRowGroups(scan: SplitRead, access: ParquetReaderAccess) extends Closeable with Logging {
  import ScanCounter._
  import scan.{file, task}

  private val spec = task.spec
  private val report = task.report
  private val reader = access.fileReader
  private val columns: IndexedSeq[FileColumn] = spec.columns.zipWithIndex.collect {
    case (c, i) if !c.isPartitionColumn => new FileColumn(access, i, c, c.ordinal)
  }
  // By column of the spec, the index in `columns`; -1 for a partition column.
  private val dataIndex: IndexedSeq[Int] = spec.columns.indices.map(i => columns.indexWhere(_.index == i))
  private val columnBytes = new ColumnBytes(access)
  private val late = new LateMaterialization(scan, access, columns, columnBytes)
  private val learner = new StatisticsLearner(scan, access, columns)
  private var failed = false

  private val queue = {
    // Some writers put a row group without rows into the file of an empty table, which Parquet refuses to read.
    val groups = reader.getRowGroups.asScala.zipWithIndex.collect {
      case (b, i) if b.getRowCount > 0 =>
        // Rows are selected by number only if all columns have a page index.
        val indexed = columnBytes.hasPageIndex(b)
        val left = if (indexed) access.rowsLeft(i).map(ParquetRowRanges.rows) else None
        new RowGroup(b, i, boundsOf(b), left.filter(_.count < b.getRowCount), indexed)
    }.toArray
    val orders = spec.orders.collect { case (c, topK) if dataIndex(c) >= 0 => (dataIndex(c), topK) }
    val ordered =
      if (groups.length > 1 && orders.nonEmpty) BestFirst.sort(groups.toSeq, orders)(_.bounds(_)) else groups.toSeq
    scala.collection.mutable.ArrayDeque.from(ordered)
  }

  locally {
    report.add(RowGroups, queue.size.toLong)
    report.add(Rows, access.totalRowCount)
    report.add(BytesTotal, columnBytes.splitBytes)
  }

  private def boundsOf(block: BlockMetaData): Array[ColumnBounds] =
    columns.indices.map { i =>
      val fromFooter = columns(i).bounds(block)
      // Learned bounds replace missing bounds of the footer, as for INT96.
      if (fromFooter.min == null && fromFooter.max == null) learner.learned(block, i).getOrElse(fromFooter)
      else fromFooter
    }.toArray

  /** The next rows to read, never an empty store; null at the end. */
  def next(): PageReadStore = {
    while (queue.nonEmpty) {
      if (current == null || (current.group ne queue.head)) {
        if (current != null) current.recordCost()
        // The first row group includes the cost of opening the split, two to ten times the cost of the next one.
        current = new GroupScan(task, queue.head, isComparable = current != null || isAlone)
      }
      val store = if (failed) readRest() else admit()
      if (store != null && store.getRowCount > 0) {
        report.add(RowsOutput, store.getRowCount)
        return store
      }
    }
    isExhausted = true
    null
  }

  /** The rows to return of a batch of the current row group. */
  def tested(batch: ColumnarBatch): ColumnarBatch =
    if (!spec.testsRead || failed || current.hasChosenRows) batch else late.tests(batch)

  private val isAlone = queue.size == 1
  private var current: GroupScan = _
  private var isExhausted = false

  private def admit(): PageReadStore =
    // Counted after the read: a failing read leaves the row group unchanged, for `readRest`.
    try {
      val group = current.group
      val decision = decide(group, current.firstPart)
      val store = decision.read match {
        case GroupRead.Prune(by) =>
          if (current.firstPart.isEmpty) {
            report.add(RowGroupsPruned, 1)
            report.add(by, 1)
          }
          null
        case GroupRead.All => readAll(group)
        case GroupRead.Rows(rows, _) => readRows(group, rows)
        case GroupRead.First(part) => readRows(group, part.rows)
      }
      current.admitted(decision)
      if (!current.hasMore) queue.removeHead()
      store
    } catch {
      case e @ (_: TaskKilledException | _: InterruptedIOException | _: ClosedByInterruptException) => throw e
      case PluginFailure(e) =>
        // If the file is at fault, reading it as Spark does shows Spark's own error.
        failed = true
        report.add(Fallbacks, 1)
        report.addReason(Reasons.Failed(e, "filtering a row group"))
        logWarning(s"Dynamic filters: reading ${file.urlEncodedPath} without filters from here on", e)
        null
    }

  private def readAll(group: RowGroup): PageReadStore = {
    val store = reader.readFilteredRowGroup(group.index)
    columnBytes.count(report, reader, group.index, None, None)
    store
  }

  private def readRows(group: RowGroup, rows: RowRanges): PageReadStore = {
    val store = SelectedRows.read(reader, group.index, group.rowCount, rows, group.hasPageIndex)
    columnBytes.count(report, reader, group.index, None, Some(rows))
    store
  }

  private def readRest(): PageReadStore = {
    val group = queue.removeHead()
    current.firstPart match {
      case None => readAll(group)
      case Some(done) =>
        val rest = done.rows.complement(group.rowCount)
        if (rest.isEmpty) null else readRows(group, rest)
    }
  }

  private def decide(group: RowGroup, firstPart: Option[FirstPart]): Decision = {
    val pruner = task.pruner()
    val now = pruner.filters
    if (pruner.excludes(boundsOf(group, _))) return Decision(GroupRead.Prune(ByStatistics))
    val either = Disjunction.from(spec.either.map(i => Disjunct(i, now(i), pruner.effect(i, boundsOf(group, i)))))
    // If the best rows were returned before, only worse rows are left.
    if (firstPart.exists(p => pruner.effect(columns(0).index, p.restBounds) == Pruner.PassesNone))
      return Decision(GroupRead.Prune(ByRows))
    // A filter of a disjunction excludes nothing by itself.
    val effects = columns.indices.map { c =>
      if (columns(c).filtered.either) Pruner.PassesAll else pruner.effect(columns(c).index, group.bounds(c))
    }
    val filters = columns.map(c => now(c.index))
    val undecided = columns.indices.filter(effects(_) != Pruner.PassesAll)
    val ofValues = columns.indices.filter(effects(_) == Pruner.PassesSome)
    if (firstPart.isEmpty) {
      // For a one-sided range, statistics say as much as a dictionary does.
      def noBounds(i: Int) = group.bounds(i).min == null && group.bounds(i).max == null
      val inDictionary = ofValues.filter(i => noBounds(i) || filters(i).points.isDefined)
      if (
        inDictionary
          .exists(i => excludes(i, group, task.steps.dictionaries, _.dictionaryCouldPass(group.block, filters(i))))
      )
        return Decision(GroupRead.Prune(ByDictionary))
      if (ofValues.exists(i => excludes(i, group, task.steps.blooms, _.bloomCouldPass(group.block, filters(i)))))
        return Decision(GroupRead.Prune(ByBloom))
    }
    val byFilters =
      if (!group.hasPageIndex) Nil
      else
        undecided.flatMap(c => rowsOfPages(group, pruner, columns(c).index)) ++
          either.flatMap(_.rowsOfPages(rowsOfPages(group, pruner, _)))
    val pages = (group.left ++ byFilters).reduceOption(_ intersect _)
    if (pages.exists(_.isEmpty)) return Decision(GroupRead.Prune(ByPages))
    if (firstPart.isEmpty) pages.foreach(p => report.add(RowsSkippedByPages, group.leftCount - p.count))
    val eitherPass = either.flatMap(
      _.pass(i => columns.find(c => c.index == i && c.isRead).map(_.ordinal))
    )
    // Leaves out filters that all rows pass, or all but a few NULLs.
    val selectiveOnly =
      columns.indices.map(c => if (effects(c).isSelective(hasFewNulls(group, c))) filters(c) else ValueFilter.All)
    late.decide(group, firstPart, selectiveOnly, eitherPass, pages, learner)
  }

  /** The rows in pages that a filter does not exclude; None for a partition column, or without a page index for the
    * column.
    */
  private def rowsOfPages(group: RowGroup, pruner: Pruner, column: Int): Option[RowRanges] =
    columns.find(_.index == column).flatMap(_.pages(group.block)).map(pruner.rowsOfPages(column, _))

  /** Whether a column has too few NULLs to make a first pass with a join's filter worth its cost. */
  private def hasFewNulls(group: RowGroup, column: Int): Boolean =
    spec.isForJoinsOnly && columns(column)
      .nulls(group.block)
      .exists(_ < group.rowCount * (1 - spec.giveUpSelectivity))

  /** Whether a dictionary or bloom filter excludes the row group. Looks into it only if its tracker says that this
    * pays.
    *
    * @param column position among the filtered columns of the files
    * @param couldPass the lookup; None if the file has nothing to look into
    */
  private def excludes(
      column: Int,
      group: RowGroup,
      trackers: IndexedSeq[StepTracker],
      couldPass: FileColumn => Option[Boolean]
  ): Boolean = {
    val tracker = trackers(columns(column).index)
    tracker.takesNext() && {
      val answer = couldPass(columns(column))
      // Nothing to record if the file has no dictionary or Bloom filter.
      if (answer.exists(passes => tracker.recordRows(group.rowCount, if (passes) group.rowCount else 0L)))
        report.addReason(Reasons.SeldomLookedUp)
      answer.contains(false)
    }
  }

  private def boundsOf(group: RowGroup, column: Int): ColumnBounds =
    if (dataIndex(column) >= 0) group.bounds(dataIndex(column)) else scan.certainBounds(column)

  override def close(): Unit =
    try {
      // The cost of a row group is known only if it was read to its end.
      if (isExhausted && current != null) current.recordCost()
      late.close()
    } catch {
      // Another thread of the task may still be reading, for example to feed a script.
      case PluginFailure(e) => report.addReason(Reasons.Failed(e, "a file was closed"))
    } finally
      try learner.finish(reader.getFooter.getBlocks.asScala.toSeq)
      catch { case NonFatal(e) => report.addReason(Reasons.Failed(e, "learning statistics")) }
}

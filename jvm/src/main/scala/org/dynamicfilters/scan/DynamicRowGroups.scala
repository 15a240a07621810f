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
import org.dynamicfilters.state.{Cost, StepTracker, Tested}

/** Decides, row group by row group and always with the newest filters, what of a split is read.
  *
  * In this order, each step only where the ones before left something: statistics, dictionary, bloom filter, page index,
  * first pass over the filter's columns, first pass over the query's own predicates. What is read without a first pass may
  * still lose rows before they are handed on ([[BatchSelector]]). The row groups come best first by the
  * filter's order.
  *
  * A row group of which many rows pass a TopK is handed on in two parts: first its `limit` best rows, and the rest only if it
  * still passes after the producer has seen those. Each row is handed on at most once, in whatever order.
  *
  * Our own failures never reach the query: from then on the split is read as stock Spark would read it.
  *
  * @param askedAt
  *   before the file was opened, milliseconds since 1970
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
  // Among these, by column of the spec; -1 for a partition column.
  private val dataIndex: IndexedSeq[Int] = spec.columns.indices.map(i => dataColumns.indexWhere(_._1 == i))
  private val fileColumns = dataColumns.map { case (_, c) => new FileColumn(access, c.ordinal, c.domain) }
  private val columnBytes = new ColumnBytes(access)
  private val passes = new FirstPasses(task, access, file, dataColumns, fileColumns, columnBytes)
  private val learner = new StatisticsLearner(task, access, file, dataColumns, fileColumns, askedAt)
  private var failed = false

  private val queue = {
    // Some writers leave a row group without rows in the file of an empty table; Parquet refuses to read it.
    val groups = reader.getRowGroups.asScala.zipWithIndex.collect {
      case (b, i) if b.getRowCount > 0 =>
        // Without a page index for all columns, rows are not read by their numbers.
        val left = if (columnBytes.hasPageIndex(b)) access.rowsLeft(i).map(ParquetRowRanges.rows) else None
        new RowGroup(b, i, boundsOf(b), left.filter(_.count < b.getRowCount))
    }.toArray
    val orders = spec.orders.collect { case (c, topK) if dataIndex(c) >= 0 => (dataIndex(c), topK) }
    val ordered =
      if (groups.length > 1 && orders.nonEmpty) BestFirst.sort(groups.toSeq, orders)(_.bounds(_)) else groups.toSeq
    scala.collection.mutable.ArrayDeque.from(ordered)
  }

  // Fixed filters leave out these row groups whatever happens while others are read.
  private val leftOut: Seq[RowGroup] =
    if (!task.isFixed) Nil
    else {
      val pruner = task.pruner(task.allFilters().zip(spec.columns).map { case (f, c) =>
        if (c.ref.topK.isDefined) ValueFilter.All else f
      })
      // By the footer alone: what was learned may differ from attempt to attempt.
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
    report.add(BytesTotal, columnBytes.ofSplit)
  }

  private def boundsOf(block: BlockMetaData): Array[ColumnBounds] =
    fileColumns.indices.map { i =>
      val fromFooter = fileColumns(i).bounds(block)
      // Learned bounds help where the footer has none, as for INT96.
      if (fromFooter.min == null && fromFooter.max == null) learner.learned(block, i).getOrElse(fromFooter)
      else fromFooter
    }.toArray

  /** The rows to read next, never an empty store; null at the end. */
  def next(): PageReadStore = {
    while (queue.nonEmpty) {
      val group = queue.head
      if (group ne current) {
        settle(group)
        task.reachesRowGroup(group.block.getStartingPos)
      }
      val store = if (failed) readRest(group) else admit(group)
      if (store != null && store.getRowCount > 0) {
        report.add(RowsOutput, store.getRowCount)
        group.handedOn = true
        return store
      }
    }
    isExhausted = true
    null
  }

  /** What to hand on of a batch of the row group that was returned last. */
  def tested(batch: ColumnarBatch): ColumnarBatch =
    if (!spec.testsRead || failed || current.isFound) batch
    else if (isWorthTesting(current)) passes.byAll(batch)
    else passes.byOthers(batch)

  /** Whether by filters of joins of the same stage. */
  private def isWorthTesting(group: RowGroup): Boolean = {
    if (group.isTested.isEmpty && group.isComparable && group.leftCount >= RowTests.MeasurableRows)
      try {
        val now = task.filters()
        if (now.indices.exists(i => spec.forOwnStage(i) && now(i) != ValueFilter.All))
          group.isTested = Some(task.steps.ownStageTests.isTaken())
      } catch {
        // The test itself meets it too, and reports it.
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
  private def settle(next: RowGroup): Unit = {
    val now = System.nanoTime()
    if (current != null) {
      if (current.isComparable && task.comparesTimes) {
        if (current.isLate.exists(current.firstPass.took(_, current.leftCount, now - since)))
          report.addReason(FirstPasses.Disabled)
        // What is read is the same with tests and without: on a busy machine processor time says more.
        def nanos = ThreadTime.nanos - processorSince
        if (
          (thread eq Thread.currentThread) && current.isTested.exists(
            task.steps.ownStageTests.took(_, current.leftCount, nanos)
          )
        )
          report.addReason(RowTests.Disabled)
      }
      task.tookRowGroup(now - since)
    }
    // The first row group also pays for what is opened and made with the split, two to ten times what the next one takes.
    if (next != null) next.isComparable = current != null || isAlone
    current = next
    since = now
    processorSince = ThreadTime.nanos
    thread = Thread.currentThread
  }

  private def admit(group: RowGroup): PageReadStore =
    // What was read is noted after it was read: a failing read leaves the row group as it was, for `readRest`.
    try
      decide(group) match {
        case Decision.Prune(by) =>
          queue.removeHead()
          if (!group.handedOn) {
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
          group.done = Some(rows)
          store
      }
    catch {
      case e @ (_: TaskKilledException | _: InterruptedIOException | _: ClosedByInterruptException) => throw e
      case OwnFailure(e) =>
        // Reading again as Spark would shows Spark's own error where the file is at fault.
        failed = true
        task.overlookAll()
        report.add(Fallbacks, 1)
        report.addReason(s"${e.getClass.getSimpleName} while filtering a row group")
        logWarning(s"Dynamic filters: reading ${file.urlEncodedPath} without filters from here on", e)
        null
    }

  private def readRows(group: RowGroup, rows: RowSet): PageReadStore = {
    val store = SelectedRows.read(reader, group.index, group.rowCount, rows, columnBytes.hasPageIndex(group.block))
    columnBytes.count(report, reader, group.index, None, Some(rows))
    store
  }

  private def readRest(group: RowGroup): PageReadStore = {
    queue.remove(queue.indexOf(group))
    group.done match {
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
    val either = EitherFilters.of(spec.either.map(i => EitherFilter(i, now(i), pruner.effect(i, boundsOf(group, i)))))
    // Of a row group whose best rows were handed on, only worse ones are left.
    if (group.done.isDefined && group.rest.exists(pruner.effect(dataColumns(0)._1, _) == Pruner.PassesNone))
      return Decision.Prune(ByRows)
    // One of those of which a row has to pass only one says nothing by itself.
    val effects = columns.map { c =>
      val (i, column) = dataColumns(c)
      if (column.either) Pruner.PassesAll else pruner.effect(i, group.bounds(c))
    }
    val filters = dataColumns.map { case (i, _) => now(i) }
    val undecided = columns.filter(effects(_) != Pruner.PassesAll)
    val ofValues = columns.filter(effects(_) == Pruner.PassesSome)
    if (group.done.isEmpty) {
      // Statistics say as much of a one-sided range as a dictionary does, where there are any.
      def noBounds(i: Int) = group.bounds(i).min == null && group.bounds(i).max == null
      val inDictionary = ofValues.filter(i => noBounds(i) || filters(i).points.isDefined)
      if (
        inDictionary
          .exists(i =>
            excludes(i, group.rowCount, task.steps.dictionaries, _.dictionaryCouldPass(group.block, filters(i)))
          )
      )
        return Decision.Prune(ByDictionary)
      if (
        ofValues
          .exists(i => excludes(i, group.rowCount, task.steps.blooms, _.bloomCouldPass(group.block, filters(i))))
      )
        return Decision.Prune(ByBloom)
    }
    val byFilters =
      if (!columnBytes.hasPageIndex(group.block)) Nil
      else
        undecided.flatMap(c => rowsOfPages(group, pruner, dataColumns(c)._1)) ++
          either.flatMap(_.rowsOfPages(rowsOfPages(group, pruner, _)))
    val pages = (group.left ++ byFilters).reduceOption(_ intersect _)
    if (pages.exists(_.isEmpty)) return Decision.Prune(ByPages)
    if (group.done.isEmpty) pages.foreach(p => report.add(RowsSkippedByPages, group.leftCount - p.count))
    val eitherPass = either.flatMap(
      _.pass(i => Option(dataIndex(i)).filter(d => d >= 0 && fileColumns(d).isStored).map(dataColumns(_)._2.ordinal))
    )
    // A filter that all rows are known to pass is none here, nor is one that leaves out nothing but a few NULLs.
    val selectiveOnly =
      columns.map(c => if (effects(c).isSelective(hasFewNulls(group, c))) filters(c) else ValueFilter.All)
    passes.decide(group, selectiveOnly, eitherPass, pages, learner)
  }

  /** None for a partition column, or without a page index for the column. */
  private def rowsOfPages(group: RowGroup, pruner: Pruner, column: Int): Option[RowSet] =
    Option(dataIndex(column))
      .filter(_ >= 0)
      .flatMap(fileColumns(_).pages(group.block))
      .map(pruner.rowsOfPages(column, _))

  private def record(group: RowGroup): Unit = if (group.done.isEmpty) {
    val pruner = task.pruner(task.allFilters())
    dataColumns.indices.foreach(c =>
      pruner.recordRowGroup(report, dataColumns(c)._1, group.bounds(c), hasFewNulls(group, c))
    )
  }

  /** Fewer than it takes for a join's filter to be worth a pass. */
  private def hasFewNulls(group: RowGroup, column: Int): Boolean =
    spec.isForJoinsOnly && fileColumns(column)
      .nulls(group.block)
      .exists(_ < group.rowCount * (1 - spec.giveUpSelectivity))

  /** Looks up what a filter needs where that was of use lately.
    *
    * @param column
    *   position among the filtered columns of the files
    * @param rows
    *   of the row group
    * @param couldPass
    *   None where there is nothing to look up
    */
  private def excludes(
      column: Int,
      rows: Long,
      trackers: IndexedSeq[StepTracker],
      couldPass: FileColumn => Option[Boolean]
  ): Boolean = {
    val tracker = trackers(dataColumns(column)._1)
    tracker.isTaken() && {
      val from = ThreadTime.nanos
      val answer = couldPass(fileColumns(column))
      val spent = ThreadTime.nanos - from
      // To read the row group would have taken many times as long.
      val saved = if (answer.contains(false)) spent * StepTracker.FirstPause else 0L
      // Where there is nothing to look up, nothing was decided.
      val decided = if (answer.isDefined) rows else 0L
      if (tracker.add(Tested(decided, if (answer.contains(true)) rows else 0, Cost(spent, saved, 0))))
        report.addReason("dictionaries or bloom filters left out no row groups: they are seldom looked into")
      answer.contains(false)
    }
  }

  private def boundsOf(group: RowGroup, column: Int): ColumnBounds =
    if (dataIndex(column) >= 0) group.bounds(dataIndex(column)) else task.files.certainBounds(file, column)

  override def close(): Unit =
    try {
      // A LIMIT was reached before.
      if (queue.nonEmpty) task.overlookAll()
      // What was not read to its end says nothing of the cost.
      if (isExhausted) settle(null)
      passes.close()
    } catch {
      // Another thread of the task may still read, as a script's input.
      case OwnFailure(e) => report.addReason(s"${e.getClass.getSimpleName} while a file was closed")
    } finally
      try learner.finish(reader.getFooter.getBlocks.asScala.toSeq)
      catch { case NonFatal(e) => report.addReason(s"${e.getClass.getSimpleName} while learning statistics") }
}

/** One row group on its way.
  *
  * @param index
  *   position among the reader's row groups
  * @param bounds
  *   by filtered column of the files
  * @param left
  *   rows that the query's static predicates leave by the page index, None for all: without us Spark would read no others
  */
final class RowGroup(
    val block: BlockMetaData,
    val index: Int,
    val bounds: Array[ColumnBounds],
    val left: Option[RowSet]
) {
  val rowCount: Long = block.getRowCount
  val leftCount: Long = left.fold(rowCount)(_.count)

  /** Rows already handed on, if the row group comes in two parts. */
  var done: Option[RowSet] = None

  /** Whether its time may be compared with that of others. */
  var isComparable = false

  /** Whether what is read of it was found row by row. */
  var isFound = false

  /** Decided whether filter columns are read first. */
  var firstPass: StepTracker = _

  /** Whether they were; None where that was not in question, or where it was read plainly after a first pass. */
  var isLate: Option[Boolean] = None

  /** Whether rows that were read plainly are tested by filters of the same stage; None where that was not in question. */
  var isTested: Option[Boolean] = None

  /** Bounds of the first filtered column in the rows that are left then. */
  var rest: Option[ColumnBounds] = None
  var handedOn = false
}

/** What becomes of a row group. */
sealed trait Decision
object Decision {

  /** Nothing (more) of it is read. */
  final case class Prune(by: ScanCounter.Value) extends Decision

  /** All of it, as stock Spark would. */
  case object ReadAll extends Decision
  final case class Read(rows: RowSet) extends Decision

  /** These rows now; the row group is looked at again after them. */
  final case class ReadFirst(rows: RowSet) extends Decision
}

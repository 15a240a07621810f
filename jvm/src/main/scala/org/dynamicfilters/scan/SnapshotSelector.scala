package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.reasons.Reasons

/** The exact test between a scan and the exchange above it, by the rule of [[org.dynamicfilters.state.Snapshots]]: only
  * rows that pass the snapshot go on, whether the scan has read them by statistics, first passes or as stock Spark.
  *
  * Tests every batch or row that the scan's RDD returns. Filters of TopKs are skipped here, because their taps are
  * exact. Filters of joins in the same stage are skipped too: the join drops the same rows, and the reader tests by
  * these filters.
  *
  * @param countsRows whether no reader of ours counts the rows, so that this class does. Then only filters from beyond
  *   an exchange, or those that users tighten, are used
  */
private[scan] final class SnapshotSelector(task: TaskScan, countsRows: Boolean = false) {
  import ScanCounter._

  private val spec = task.spec

  // Partition columns follow those that are read.
  private def at(ordinal: Int, partitionOrdinal: Int): Int =
    if (ordinal >= 0) ordinal else spec.requiredSchema.length + partitionOrdinal

  private def isUsed(c: ScanColumn): Boolean =
    c.ref.topK.isEmpty && !c.isForOwnStage && (!countsRows || c.place.crossesExchange || c.followsUpdates)

  private val columns: IndexedSeq[(Int, Int)] =
    spec.columns.zipWithIndex.collect { case (c, i) if isUsed(c) => (i, at(c.ordinal, c.partitionOrdinal)) }
  private def active(): IndexedSeq[RowFilter] =
    task.rowTests.active(task.filters(), columns, spec.columns(_).field)
  private val batches = new BatchSelector(() => active(), task.rowTests, task.report)

  /** The rows of a scan that pass.
    *
    * @param rows `ColumnarBatch`es or `InternalRow`s. A batch may become one without rows
    */
  def apply[T](rows: Iterator[T]): Iterator[T] = {
    val test = new RowTest
    task.beforeReport(() => test.count())
    rows
      .map {
        case b: ColumnarBatch => tested(b).asInstanceOf[T]
        case other => other
      }
      .filter {
        case r: InternalRow => test.passes(r)
        case _ => true
      }
  }

  private def tested(batch: ColumnarBatch): ColumnarBatch = {
    if (countsRows) addRows(batch.numRows.toLong)
    // Subclasses of ColumnarBatch from other engines have more state than the columns: they pass unchanged.
    if (columns.isEmpty || batch.getClass != classOf[ColumnarBatch]) batch
    else batches(batch)
  }

  private def addRows(n: Long): Unit = {
    task.report.add(Rows, n)
    task.report.add(RowsOutput, n)
  }

  /** Tests rows one by one. Asks for the filters once for each block of rows. */
  private final class RowTest {
    private var (seen, dropped) = (0L, 0L)
    private var left = 0
    private var used = Array.empty[RowFilter]

    def passes(row: InternalRow): Boolean = {
      if (left == 0) renew()
      left -= 1
      seen += 1
      val passing = passesAll(row)
      if (!passing) dropped += 1
      passing
    }

    /** If a source returns a malformed value, the row passes in every attempt. */
    private def passesAll(row: InternalRow): Boolean =
      try {
        var i = 0
        while (i < used.length && used(i).passes(row)) i += 1
        i == used.length
      } catch {
        case PluginFailure(e) =>
          task.report.addReason(Reasons.Failed(e, "testing a row"))
          true
      }

    private def renew(): Unit = {
      count()
      left = SnapshotSelector.Block
      used = active().toArray
    }

    /** Reports the rows since the last call. */
    def count(): Unit = if (seen > 0) {
      if (countsRows) addRows(seen)
      task.report.add(RowsDropped, dropped)
      task.report.add(RowsOutput, -dropped)
      // Each of several filters is charged with all dropped rows: to time each would cost more than the test.
      used.foreach(u => task.rowTests(u.at, seen, seen - dropped, 0))
      seen = 0
      dropped = 0
    }
  }
}

private object SnapshotSelector {

  /** Rows between two looks at the filters. */
  private val Block = 1024
}

package org.dynamicfilters.scan.sources

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, ValueFilter}
import org.dynamicfilters.scan.{NaN, ScanCounter, ScanSpec, TaskScan}

/** Skips cached batches without a row that passes the scan's filters, by Spark's statistics of each batch.
  *
  * @param columns by column of the spec, the position among the cached columns
  * @param read positions of the columns that the query reads, among the cached columns
  */
final class CachedBatches(spec: ScanSpec, columns: IndexedSeq[Int], read: IndexedSeq[Int]) extends Serializable {
  import CachedBatches._
  import ScanCounter._

  /** The batches of one partition that are read. Uses the newest filters for each batch. */
  def apply(batches: Iterator[CachedBatch]): Iterator[CachedBatch] = TaskScan.current(spec.scanId) match {
    case None => batches
    case Some(task) => batches.filter(mayMatter(_, task))
  }

  private def mayMatter(batch: CachedBatch, task: TaskScan): Boolean = {
    val (kept, bytes) = batch match {
      case b: SimpleMetricsCachedBatch =>
        (!excludes(b.stats, task), read.map(i => b.stats.getLong(i * PerColumn + Bytes)).sum)
      case b => (true, b.sizeInBytes)
    }
    val report = task.report
    report.add(BytesTotal, bytes)
    if (!kept) report.addRowGroups(1, batch.numRows.toLong)
    else {
      report.add(RowGroups, 1)
      report.add(BytesRead, bytes)
      // If rows are tested one by one, the test counts them.
      if (!spec.testsBatches) Seq(Rows, RowsOutput).foreach(report.add(_, batch.numRows.toLong))
    }
    kept
  }

  private def excludes(stats: InternalRow, task: TaskScan): Boolean = {
    val pruner = task.pruner()
    pruner.excludes(i => boundsOf(stats, columns(i), spec.columns(i).domain, pruner.filters(i)))
  }
}

object CachedBatches {

  // Layout of the statistics of a column: lower and upper bound, then the numbers of nulls, rows and bytes.
  private val PerColumn = 5
  private val Lower = 0
  private val Upper = 1
  private val Nulls = 2
  private val Count = 3
  private val Bytes = 4

  /** The bounds of a column in a batch, for its filter. Spark leaves NaN out of its statistics, so the maximum of a
    * floating point column counts as unknown for a filter that passes NaN.
    *
    * @param column position among the cached columns
    */
  def boundsOf(stats: InternalRow, column: Int, domain: KeyDomain, filter: ValueFilter): ColumnBounds = {
    val at = column * PerColumn
    val (nulls, count) = (stats.getInt(at + Nulls), stats.getInt(at + Count))
    def end(i: Int) = if (stats.isNullAt(at + i)) null else domain.fromInternal(stats.get(at + i, domain.dataType))
    if (nulls >= count) ColumnBounds.onlyNulls
    else {
      val (min, max) = (end(Lower), end(Upper))
      // The initial values: all values are NaN.
      if (min != null && max != null && domain.compare(min, max) > 0)
        ColumnBounds(null, null, nulls > 0, mayHaveValues = true)
      else ColumnBounds(min, if (NaN.passes(filter, domain)) null else max, nulls > 0, mayHaveValues = true)
    }
  }
}

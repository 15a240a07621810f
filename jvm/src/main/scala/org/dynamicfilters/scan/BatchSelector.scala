package org.dynamicfilters.scan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.{OwnFailure, Selection, ValueFilter}
import org.dynamicfilters.reasons.Reasons

/** Drops rows from batches that were read in full, with the newest filters. Used by [[LateMaterialization]]. A dropped
  * row is not shuffled, sorted, fetched or looked up in a join's hash table, which costs more than testing its key
  * here.
  *
  * So a plain read may be chosen if it is cheaper than late materialization, and filters that arrive while a row group
  * is read apply to its next batch.
  *
  * @param filters
  *   the current filters, by column of the spec
  * @param columns
  *   the filtered columns that the file has: position in the spec, and in the batch
  */
final class BatchSelector(
    filters: () => IndexedSeq[ValueFilter],
    columns: IndexedSeq[(Int, Int)],
    tests: RowTests,
    report: ScanReport
) extends Logging {
  import ScanCounter._

  private val selector = new RowSelector(tests)
  private var failed = false

  /** The batch if all rows pass, else its passing rows ([[SelectedBatch]]), maybe none. */
  def apply(batch: ColumnarBatch): ColumnarBatch =
    if (failed || batch.numRows == 0) batch
    else
      try test(batch)
      catch {
        case OwnFailure(e) =>
          failed = true
          report.add(Fallbacks, 1)
          report.addReason(Reasons.Failed(e, "testing rows"))
          logWarning("Dynamic filters: failure while testing rows that were read; those of the file's rest all pass", e)
          batch
      }

  private def test(batch: ColumnarBatch): ColumnarBatch = {
    val now = filters()
    val active = columns.collect {
      case (i, field) if now(i) != ValueFilter.All && tests.isTaken(i) => RowFilter(i, field, now(i))
    }
    if (active.isEmpty) batch
    else {
      val n = batch.numRows
      val selection = selector.select(n, batch.column, RowFilters(active))
      if (selection.count == n) batch else selected(batch, selection)
    }
  }

  private def selected(batch: ColumnarBatch, selection: Selection): ColumnarBatch = {
    val passing = SelectedBatch(batch, selection)
    val dropped = (batch.numRows - selection.count).toLong
    report.add(RowsDropped, dropped)
    report.add(RowsOutput, -dropped)
    passing
  }
}

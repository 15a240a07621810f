package org.dynamicfilters.scan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.{OwnFailure, Selection, ValueFilter}

/** Leaves rows out of batches that were read in full, with the newest filters: a row that is dropped after it was read is
  * still not shuffled, sorted and fetched, or looked up by itself in a join's hash table, which costs more than to look at its
  * key here.
  *
  * So late materialization need not be chosen for the sake of the exchange where a plain read is cheaper, and filters that
  * come while a row group is read are used in its next batch.
  *
  * @param filters
  *   by column of the spec, as of now
  * @param columns
  *   the filtered columns that the file has: position among the spec's columns, and in the batch
  * @param ofRows
  *   what looks at several columns, as of now; evaluated after the filters
  * @param tests
  *   decides by which filters rows are tested
  */
final class BatchSelector(
    filters: () => IndexedSeq[ValueFilter],
    columns: IndexedSeq[(Int, Int)],
    ofRows: () => Seq[RowPass],
    tests: RowTests,
    report: ScanReport
) extends Logging {
  import ScanCounter._

  private val selector = new RowSelector(tests)
  private var failed = false

  /** The batch or, in its place, its rows that pass ([[SelectedBatch]]); maybe none. */
  def apply(batch: ColumnarBatch): ColumnarBatch =
    if (failed || batch.numRows == 0) batch
    else
      try test(batch)
      catch {
        case OwnFailure(e) =>
          failed = true
          report.add(Fallbacks, 1)
          report.addReason(s"${e.getClass.getSimpleName} while testing rows")
          logWarning("Dynamic filters: failure while testing rows that were read; those of the file's rest all pass", e)
          batch
      }

  private def test(batch: ColumnarBatch): ColumnarBatch = {
    val now = filters()
    val active = columns.collect {
      case (i, field) if now(i) != ValueFilter.All && tests.isTaken(i) => RowFilter(i, field, now(i))
    }
    val passes = ofRows()
    if (active.isEmpty && passes.isEmpty) batch
    else {
      val n = batch.numRows
      val selection = selector.select(n, batch.column, active, passes)
      passes.foreach(_.judge())
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

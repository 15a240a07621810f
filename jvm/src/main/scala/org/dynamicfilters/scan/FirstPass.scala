package org.dynamicfilters.scan

import java.io.Closeable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, BasePredicate, BoundReference, Expression, Predicate}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.{Selection, ValueFilter}
import org.dynamicfilters.reasons.Reasons

/** Reads a few columns of row groups and finds the rows that have to be read in full. Used by [[LateMaterialization]].
  *
  * @param fields
  *   positions in the required schema of the columns to read
  * @param predicates
  *   bound to the required schema; evaluated on rows that pass the filters
  * @param record
  *   see [[RowSelector]]
  */
final class FirstPass(
    main: ParquetReaderAccess,
    val fields: IndexedSeq[Int],
    predicates: Seq[Expression],
    file: PartitionedFile,
    record: RowSelector.Record
) extends Closeable {
  private var reader: ProbeReader = _
  private val position: Map[Int, Int] = fields.zipWithIndex.toMap
  private lazy val predicate: Option[BasePredicate] =
    predicates.reduceOption(And(_, _)).map { p =>
      Predicate.create(p.transform { case b: BoundReference => b.copy(ordinal = position(b.ordinal)) })
    }
  private val selector = new RowSelector(record)

  /** @param rows
    *   the rows to read; None for all
    * @param best
    *   collects the best of the rows that pass everything, by the first of `fields`
    * @param observe
    *   called for each batch before anything is evaluated, with the columns by position in the required schema, the
    *   number of rows and their row numbers
    * @return
    *   row numbers; None if the pass was stopped
    */
  def run(
      group: RowGroup,
      rows: Option[RowRanges],
      filters: RowFilters,
      best: Option[FirstRows],
      observe: FirstPass.BatchObserver,
      stop: FirstPass.Stop
  ): Option[RowRanges] = {
    if (reader == null)
      reader = new ProbeReader(main, StructType(fields.map(main.requestedSchema.fields(_))), file.start, file.length)
    val passing = new RowRanges.Builder
    val active = filters.copy(all = filters.all.filter(_.filter != ValueFilter.All))
    val all = rows.fold(group.rowCount)(_.count)
    var seen, passed, passedAll = 0L
    val complete = reader.read(group.index, group.rowCount, rows, group.hasPageIndex) { (batch, numbers) =>
      val n = batch.numRows
      observe(f => batch.column(position(f)), n, numbers)
      val selection = selector.select(n, f => batch.column(position(f)), active)
      seen += n
      passed += selection.count
      predicate.foreach(p => keepMatching(p, batch, selection))
      passedAll += selection.count
      val heap = best.orNull
      val offered = if (heap != null) batch.column(0) else null
      var i = 0
      while (i < selection.count) {
        val r = selection.rows(i)
        passing.add(numbers(r))
        if (heap != null) heap.offer(offered, r, numbers(r))
        i += 1
      }
      seen < FirstPass.Sample || seen > all / 2 ||
      (passed <= seen * stop.aboveFilters && passedAll <= seen * stop.aboveAll)
    }
    if (complete) Some(passing.result())
    else {
      close()
      None
    }
  }

  private def keepMatching(p: BasePredicate, batch: ColumnarBatch, selection: Selection): Unit = {
    var kept = 0
    var i = 0
    while (i < selection.count) {
      val r = selection.rows(i)
      if (matches(p, batch.getRow(r))) { selection.rows(kept) = r; kept += 1 }
      i += 1
    }
    selection.count = kept
  }

  /** A row on which the predicate fails passes, so that Spark's own filter decides about the error. Predicates that can
    * fail by contract are not evaluated here ([[NeverFails]]).
    */
  private def matches(p: BasePredicate, row: InternalRow): Boolean =
    try p.eval(row)
    catch {
      case e @ (_: RuntimeException | _: StackOverflowError) =>
        lastFailure = e
        failures += 1
        true
    }

  private var failures = 0L
  private var lastFailure: Throwable = _

  def reportFailures(report: ScanReport): Unit =
    if (failures > 0)
      report.addReason(Reasons.PredicateFailed(lastFailure), failures)

  override def close(): Unit = {
    // The task may end while another thread of it is reading, for example to feed a script.
    val open = reader
    reader = null
    if (open != null) open.close()
  }
}

object FirstPass {

  /** Number of first rows that decide whether a filter is selective enough: some batches, and less than a page of most
    * columns.
    */
  private[scan] val Sample = 16384L

  /** When a pass stops: if more than this share of the first rows passes the filters, or the predicates too; 1 for never. */
  final case class Stop(aboveFilters: Double = 1, aboveAll: Double = 1)

  type BatchObserver = (Int => ColumnVector, Int, Array[Long]) => Unit
}

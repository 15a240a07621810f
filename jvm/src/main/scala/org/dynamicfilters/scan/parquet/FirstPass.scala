package org.dynamicfilters.scan.parquet

import java.io.Closeable

import org.apache.spark.sql.catalyst.expressions.{And, BasePredicate, BoundReference, Expression, Predicate}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.scan.{RowFilters, RowRanges, RowSelector}

/** Reads a few columns of row groups and finds the rows that have to be read in full. Used by [[LateMaterialization]].
  *
  * @param fields positions in the required schema of the columns to read
  * @param predicates bound to the required schema; evaluated on rows that pass the filters
  * @param record receives the effect of each filter
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

  /** @param rows the rows to read; None for all
    * @param best collects the best of the rows that pass everything, by the first of `fields`
    * @param observe called for each batch before anything is evaluated, with the columns by position in the required
    *   schema, the number of rows and their row numbers
    * @return the rows that pass; None if the pass was stopped
    */
  def run(
      group: RowGroup,
      rows: Option[RowRanges],
      filters: RowFilters,
      best: Option[BestRowsOfGroup],
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
      // Predicates that can fail are not evaluated here (NeverFails).
      predicate.foreach(p => RowSelector.narrow(selection)(r => p.eval(batch.getRow(r))))
      passedAll += selection.count
      val firstRows = best.orNull
      val offered = if (firstRows != null) batch.column(0) else null
      var i = 0
      while (i < selection.count) {
        val r = selection.rows(i)
        passing.add(numbers(r))
        if (firstRows != null) firstRows.offer(offered, r, numbers(r))
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

  override def close(): Unit = {
    // The task may end while another thread of it is reading, for example to feed a script.
    val open = reader
    reader = null
    if (open != null) open.close()
  }
}

object FirstPass {

  /** A pass is stopped only after so many rows and before half of its rows: less than a page of most columns. */
  private[scan] val Sample = 16384L

  /** A pass stops if a larger share of the rows read so far passes the filters, or filters and predicates; 1 for never.
    */
  final case class Stop(aboveFilters: Double = 1, aboveAll: Double = 1)

  type BatchObserver = (Int => ColumnVector, Int, Array[Long]) => Unit
}

/** Reads a few columns of row groups for [[FirstPass]], with Spark's own vectorized reader, on the main reader's
  * stream.
  *
  * Row groups have the same indexes as in the main reader.
  */
final class ProbeReader(main: ParquetReaderAccess, fields: StructType, start: Long, length: Long) extends Closeable {
  private val access = main.openNarrow(fields, start, length)
  access.readOnlyGivenRowGroups()

  /** Calls `consume(batch, numbers)` for each batch of the row group until it returns false; `numbers(i)` is the row
    * number of the batch's i-th row within the row group.
    *
    * @param rows the rows to read; None for all
    * @param indexed see [[SelectedRows]]
    * @return whether the row group was read to its end. If not, this reader must not be used again: Spark's reader
    *   would continue with pages that are closed
    */
  def read(group: Int, rowCount: Long, rows: Option[RowRanges], indexed: Boolean)(
      consume: (ColumnarBatch, Array[Long]) => Boolean
  ): Boolean = {
    val store = rows match {
      case Some(r) => SelectedRows.read(access.fileReader, group, rowCount, r, indexed)
      case None => access.fileReader.readRowGroup(group)
    }
    if (store == null) return true
    try {
      val numbering = new RowNumbering(rows.getOrElse(RowRanges.all(rowCount)))
      access.give(store)
      var left = store.getRowCount
      var wantsMore = true
      while (left > 0 && wantsMore && access.reader.nextBatch()) {
        val batch = access.reader.resultBatch()
        wantsMore = consume(batch, numbering.next(batch.numRows))
        left -= batch.numRows
      }
      wantsMore || left == 0
    } finally Closing(store)
  }

  override def close(): Unit = access.reader.close()
}

/** Returns the row numbers of [[RowRanges]], batch by batch. */
private[scan] final class RowNumbering(rows: RowRanges) {
  private var range = 0
  private var next0 = if (rows.isEmpty) 0L else rows.start(0)
  private var numbers = new Array[Long](4096)

  /** @return an array whose first n elements are the next n row numbers; reused by the next call */
  def next(n: Int): Array[Long] = {
    if (numbers.length < n) numbers = new Array[Long](n)
    var i = 0
    while (i < n) {
      val take = math.min((n - i).toLong, rows.end(range) - next0 + 1).toInt
      var j = 0
      while (j < take) { numbers(i + j) = next0 + j; j += 1 }
      i += take
      next0 += take
      if (next0 > rows.end(range) && range + 1 < rows.ranges) { range += 1; next0 = rows.start(range) }
    }
    numbers
  }
}

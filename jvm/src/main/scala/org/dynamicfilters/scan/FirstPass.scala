package org.dynamicfilters.scan

import java.io.Closeable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, BasePredicate, BoundReference, Expression, Predicate}
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** One pass over a few columns of a row group that finds the rows worth reading in full.
  *
  * @param fields
  *   positions in the required schema of the columns it reads
  * @param predicates
  *   bound to the required schema; evaluated after the filters, on rows that pass them
  * @param record
  *   see [[RowSelector]]
  */
final class FirstPass(
    main: ParquetReaderAccess,
    required: StructType,
    val fields: IndexedSeq[Int],
    predicates: Seq[Expression],
    start: Long,
    length: Long,
    record: RowSelector.Record
) extends Closeable {
  private var reader: ProbeReader = _
  private val position: Map[Int, Int] = fields.zipWithIndex.toMap
  private lazy val predicate: Option[BasePredicate] =
    predicates.reduceOption(And(_, _)).map { p =>
      Predicate.create(p.transform { case b: BoundReference => b.copy(ordinal = position(b.ordinal)) })
    }
  private val selector = new RowSelector(record)

  /** @param ofRows
    *   evaluated after these
    * @param offer
    *   called for each row that passes everything, with the column at `offerField`
    * @param see
    *   called for each batch before anything is evaluated, with the columns by position in the required schema, the number
    *   of rows and their row numbers; may be null, like `offer`
    * @param giveUpAbove
    *   where more than this share of the first rows passes the filters, the pass is given up; 1 for never
    * @param giveUpAboveAll
    *   the same of those that pass the predicates too
    * @return
    *   row numbers; None if it was given up
    */
  def run(
      group: Int,
      rowCount: Long,
      rows: Option[RowSet],
      indexed: Boolean,
      filters: Seq[RowFilter],
      ofRows: Seq[RowPass],
      offerField: Int,
      offer: (ColumnVector, Int, Long) => Unit,
      see: FirstPass.See,
      giveUpAbove: Double,
      giveUpAboveAll: Double
  ): Option[RowSet] = {
    if (reader == null) reader = new ProbeReader(main, StructType(fields.map(required.fields(_))), start, length)
    val passing = new RowSet.Builder
    val active = filters.filter(_.filter != ValueFilter.All)
    val all = rows.fold(rowCount)(_.count)
    var seen, passed, passedAll = 0L
    val complete = reader.read(group, rowCount, rows, indexed) { (batch, numbers) =>
      val n = batch.numRows
      if (see != null) see(f => batch.column(position(f)), n, numbers)
      val selection = selector.select(n, f => batch.column(position(f)), active, ofRows)
      seen += n
      passed += selection.count
      predicate.foreach(p => keepMatching(p, batch, selection))
      passedAll += selection.count
      val offered = if (offer != null) batch.column(position(offerField)) else null
      var i = 0
      while (i < selection.count) {
        val r = selection.rows(i)
        passing.add(numbers(r))
        if (offered != null) offer(offered, r, numbers(r))
        i += 1
      }
      seen < FirstPass.Sample || seen > all / 2 ||
      (passed <= seen * giveUpAbove && passedAll <= seen * giveUpAboveAll)
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

  /** A row on which the predicate fails passes: whether that is an error is for Spark's own filter to say. None that is expected
    * to fail is asked here ([[NeverFails]]).
    */
  private def matches(p: BasePredicate, row: InternalRow): Boolean =
    try p.eval(row)
    catch {
      case e @ (_: RuntimeException | _: StackOverflowError) =>
        lastFailure = e
        failures += 1
        true
    }

  /** Rows on which the predicates failed, and how. */
  var failures = 0L
  var lastFailure: Throwable = _

  override def close(): Unit = {
    // The task may end while another thread of it reads (a script's input).
    val open = reader
    reader = null
    if (open != null) open.close()
  }
}

object FirstPass {

  /** Rows that say whether a filter is of use: some batches, and less than a page of most columns. */
  private[scan] val Sample = 16384L

  type See = (Int => ColumnVector, Int, Array[Long]) => Unit
}

package org.dynamicfilters.scan

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** One of the filters of which a row has to pass only one.
  *
  * @param column
  *   of the scan's spec
  * @param effect
  *   on the row group in question
  */
final case class EitherFilter(column: Int, filter: ValueFilter, effect: Pruner.Effect)

/** Filters of which a row has to pass only one: a row matters to `SELECT min(x), max(y)` if x is smaller or y is greater than
  * what is known. Those that exclude the whole row group are not among them.
  */
final class EitherFilters private (filters: IndexedSeq[EitherFilter]) {

  /** @param ofColumn
    *   rows in pages that the filter of a column does not exclude, None where that is not known
    */
  def rowsOfPages(ofColumn: Int => Option[RowSet]): Option[RowSet] =
    filters
      .foldLeft[Option[Vector[RowSet]]](Some(Vector.empty))((all, f) =>
        all.flatMap(rows => ofColumn(f.column).map(rows :+ _))
      )
      .map(_.reduce(_ union _))

  /** @param field
    *   position in the required schema of a column, None if first passes do not read it
    */
  def pass(field: Int => Option[Int]): Option[RowPass] = {
    val fields = filters.map(f => field(f.column))
    Option.when(fields.forall(_.isDefined))(new EitherPass(fields.map(_.get).zip(filters.map(_.filter))))
  }
}

object EitherFilters {

  /** @return
    *   None if they exclude no row
    */
  def of(all: IndexedSeq[EitherFilter]): Option[EitherFilters] = {
    val possible = all.filter(_.effect != Pruner.PassesNone)
    Option.when(possible.nonEmpty && possible.forall(_.effect != Pruner.PassesAll))(new EitherFilters(possible))
  }
}

/** Keeps the rows that pass one of the filters.
  *
  * @param filters
  *   with the position of their columns in the required schema
  */
private final class EitherPass(filters: Seq[(Int, ValueFilter)]) extends RowPass {
  private var candidates = Array.emptyIntArray
  private var passing = Array.emptyBooleanArray

  override def at: Int = -1

  override def select(vector: Int => ColumnVector, s: Selection): Unit = {
    val n = s.count
    if (n > 0) {
      if (candidates.length < n) candidates = new Array[Int](n)
      System.arraycopy(s.rows, 0, candidates, 0, n)
      // By row number of the batch; candidates ascend.
      val rows = candidates(n - 1) + 1
      if (passing.length < rows) passing = new Array[Boolean](rows)
      else java.util.Arrays.fill(passing, 0, rows, false)
      filters.foreach { case (field, filter) =>
        System.arraycopy(candidates, 0, s.rows, 0, n)
        s.count = n
        filter.select(vector(field), s)
        var i = 0
        while (i < s.count) { passing(s.rows(i)) = true; i += 1 }
      }
      var i, kept = 0
      while (i < n) {
        val r = candidates(i)
        if (passing(r)) { s.rows(kept) = r; kept += 1 }
        i += 1
      }
      s.count = kept
    }
  }

  override def judge(): Unit = ()
}

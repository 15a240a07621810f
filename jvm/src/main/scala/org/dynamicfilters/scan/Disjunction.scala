package org.dynamicfilters.scan

import java.util.{Arrays, BitSet}

import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, ValueFilter}

/** One filter of a [[Disjunction]].
  *
  * @param effect effect on the current row group
  */
final case class Disjunct(column: Int, filter: ValueFilter, effect: Pruner.Effect)

/** Filters of which a row needs to pass only one, in one row group: a row matters to `SELECT min(x), max(y)` if x is
  * less than the current minimum or y is greater than the current maximum. Filters that exclude the whole row group are
  * left out.
  */
final class Disjunction private (filters: IndexedSeq[Disjunct]) {

  /** @param ofColumn rows in pages that the filter of a column does not exclude; None if unknown */
  def rowsOfPages(ofColumn: Int => Option[RowRanges]): Option[RowRanges] =
    filters.map(f => ofColumn(f.column)).reduce((a, b) => for (x <- a; y <- b) yield x.union(y))

  /** @param field position of a column in the required schema; None if first passes do not read it */
  def pass(field: Int => Option[Int]): Option[DisjunctionTest] = {
    val fields = filters.map(f => field(f.column))
    Option.when(fields.forall(_.isDefined))(new DisjunctionTest(fields.map(_.get).zip(filters.map(_.filter))))
  }
}

object Disjunction {

  /** @return None if the disjunction excludes no row */
  def from(all: IndexedSeq[Disjunct]): Option[Disjunction] = {
    val possible = all.filter(_.effect != Pruner.PassesNone)
    Option.when(possible.nonEmpty && possible.forall(_.effect != Pruner.PassesAll))(new Disjunction(possible))
  }
}

/** Keeps the rows that pass at least one of the filters.
  *
  * @param filters by position of the column in the required schema
  */
final class DisjunctionTest(filters: Seq[(Int, ValueFilter)]) {

  /** @param vector by position in the required schema */
  def select(vector: Int => ColumnVector, s: Selection): Unit = {
    val candidates = Arrays.copyOf(s.rows, s.count)
    val passing = new BitSet
    def selectAll(): Unit = {
      System.arraycopy(candidates, 0, s.rows, 0, candidates.length)
      s.count = candidates.length
    }
    filters.foreach { case (field, filter) =>
      selectAll()
      filter.select(vector(field), s)
      var i = 0
      while (i < s.count) { passing.set(s.rows(i)); i += 1 }
    }
    selectAll()
    RowSelector.narrow(s)(passing.get(_))
  }
}

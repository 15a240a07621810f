package org.dynamicfilters.scan

import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}

/** Decides for all filters of a scan whether any row within given bounds can pass.
  *
  * Files, row groups, pages, cached batches and splits of other sources have adapters that make [[ColumnBounds]]. Only
  * this class compares bounds with filters.
  *
  * Holds the filters as of now. Filters only get tighter (contract 3), so what is excluded stays excluded.
  *
  * @param filters by column; `All` if unknown
  */
final class Pruner(columns: IndexedSeq[ScanColumn], val filters: IndexedSeq[ValueFilter]) {
  import Pruner._

  private val (either, required) = columns.indices.partition(columns(_).either)

  /** True only if provably no row passes.
    *
    * @param bounds by column
    */
  def excludes(bounds: Int => ColumnBounds): Boolean = {
    def excluded(i: Int) = filters(i) != ValueFilter.All && !filters(i).couldPass(bounds(i))
    required.exists(excluded) || (either.nonEmpty && either.forall(excluded))
  }

  /** What the filter of one column provably does to rows within these bounds. */
  def effect(column: Int, bounds: ColumnBounds): Effect = filters(column) match {
    case ValueFilter.All => PassesAll
    case f if !f.couldPass(bounds) => PassesNone
    case f if f.allPass(bounds) => PassesAll
    case f if f.allPass(bounds.ofValues) => PassesValues
    case _ => PassesSome
  }

  /** Rows in pages of a column that its filter does not exclude. */
  def rowsOfPages(column: Int, pages: Iterator[PageBounds]): RowRanges = {
    val rows = new RowRanges.Builder
    pages.filter(p => filters(column).couldPass(p.bounds)).foreach(p => rows.add(p.first, p.last))
    rows.result()
  }

}

object Pruner {

  /** What a filter provably does to rows within some bounds. */
  sealed trait Effect {

    /** Whether testing rows may drop any worth the cost. */
    def isSelective(hasFewNulls: => Boolean): Boolean = this match {
      case PassesAll => false
      case PassesValues => !hasFewNulls
      case PassesNone | PassesSome => true
    }
  }
  case object PassesNone extends Effect
  case object PassesAll extends Effect

  /** All rows that are not NULL pass. */
  case object PassesValues extends Effect

  /** Nothing is certain. */
  case object PassesSome extends Effect

  /** Bounds of a page, and its first and last row. */
  final case class PageBounds(bounds: ColumnBounds, first: Long, last: Long)
}

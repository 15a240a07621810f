package org.dynamicfilters.scan

import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}

/** Answers for all filters of a scan: can any row within these bounds pass?
  *
  * Files, row groups, pages, cached batches and splits of other sources differ in where their bounds come from. Each of them
  * has an adapter that makes [[ColumnBounds]]; this class is the only one that compares bounds with filters.
  *
  * Holds the filters of one moment. Filters only get tighter (contract 3), so what is excluded stays excluded.
  *
  * @param columns
  *   of the scan's spec
  * @param filters
  *   by column; `All` for a filter that is not known
  */
final class Pruner(columns: IndexedSeq[ScanColumn], val filters: IndexedSeq[ValueFilter]) {
  import Pruner._

  private val (either, required) = columns.indices.partition(columns(_).either)

  /** Whether provably no row passes.
    *
    * @param bounds
    *   by column
    */
  def excludes(bounds: Int => ColumnBounds): Boolean = {
    def excluded(i: Int) = filters(i) != ValueFilter.All && !filters(i).couldPass(bounds(i))
    required.exists(excluded) || (either.nonEmpty && either.forall(excluded))
  }

  /** What the filter of one column does to rows within these bounds. */
  def effect(column: Int, bounds: ColumnBounds): Effect = filters(column) match {
    case ValueFilter.All => PassesAll
    case f if !f.couldPass(bounds) => PassesNone
    case f if f.allPass(bounds) => PassesAll
    case f if f.allPass(bounds.ofValues) => PassesValues
    case _ => PassesSome
  }

  /** Rows in pages of a column that its filter does not exclude. */
  def rowsOfPages(column: Int, pages: Iterator[PageBounds]): RowSet = {
    val rows = new RowSet.Builder
    pages.filter(p => filters(column).couldPass(p.bounds)).foreach(p => rows.add(p.first, p.last))
    rows.result()
  }

  /** Records for each column what its filter did to a row group that is looked at, whichever filter leaves the row group out:
    * the next query may come without that one.
    *
    * @param hasFewNulls
    *   whether a column has too few NULLs for a filter to be worth it that drops nothing else
    */
  def recordRowGroup(report: ScanReport, column: Int, bounds: ColumnBounds, hasFewNulls: => Boolean): Unit =
    if (filters(column) == ValueFilter.All) report.overlook(column)
    else report.judge(column, effect(column, bounds).isSelective(hasFewNulls))

  /** Records for each column what its filter did to a file that is left out. Of filters that did not exclude all of it, nothing
    * is known: its row groups were not looked at.
    */
  def recordSkippedFile(report: ScanReport, bounds: Int => ColumnBounds): Unit = columns.indices.foreach { i =>
    effect(i, bounds(i)) match {
      case PassesNone => report.judge(i, isDecisive = true)
      case PassesAll | PassesValues if filters(i) != ValueFilter.All => ()
      case _ => report.overlook(i)
    }
  }
}

object Pruner {

  /** What a filter provably does to rows within some bounds. */
  sealed trait Effect {

    /** Whether testing rows may be worth it. */
    def isSelective(hasFewNulls: => Boolean): Boolean = this match {
      case PassesAll => false
      case PassesValues => !hasFewNulls
      case PassesNone | PassesSome => true
    }
  }
  case object PassesNone extends Effect
  case object PassesAll extends Effect

  /** All rows pass that are not NULL. */
  case object PassesValues extends Effect

  /** Nothing is certain. */
  case object PassesSome extends Effect

  /** Bounds of a page and its rows, ends inclusive. */
  final case class PageBounds(bounds: ColumnBounds, first: Long, last: Long)
}

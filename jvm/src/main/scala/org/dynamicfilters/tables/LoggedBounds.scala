package org.dynamicfilters.tables

import org.dynamicfilters.filter.ColumnBounds

/** Bounds of one column in one version of a table, by the file's URL-encoded path.
  *
  * @param whole
  *   files without deleted rows in this version; their bounds hold in every version
  * @param others
  *   files with deleted rows; an older or restored version may have more rows of them
  */
final case class LoggedBounds(whole: Map[String, ColumnBounds], others: Map[String, ColumnBounds]) {

  /** Number of files. */
  def size: Int = whole.size + others.size

  def get(file: String): Option[ColumnBounds] = whole.get(file).orElse(others.get(file))

  /** A copy without files that have no bounds. */
  def known: LoggedBounds = {
    def some(of: Map[String, ColumnBounds]) = of.filter(_._2 != ColumnBounds.unknown)
    LoggedBounds(some(whole), some(others))
  }

  /** Of any version of the table. */
  def ofAnyVersion: LoggedBounds = copy(others = Map.empty)
}

object LoggedBounds {
  val none: LoggedBounds = LoggedBounds(Map.empty, Map.empty)
}

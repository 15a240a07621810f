package org.dynamicfilters.tables

import org.dynamicfilters.filter.ColumnBounds

/** What one version of a table says of a column of its files, by URL-encoded path of the file.
  *
  * @param whole
  *   files of which this version has every row: true of the same file in each version
  * @param others
  *   files with deleted rows: an older version, or one that was restored, may have more of them
  */
final case class LoggedBounds(whole: Map[String, ColumnBounds], others: Map[String, ColumnBounds]) {

  /** Number of files. */
  def size: Int = whole.size + others.size

  def get(file: String): Option[ColumnBounds] = whole.get(file).orElse(others.get(file))

  /** Without the files of which nothing is said. */
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

package org.dynamicfilters.scan

/** What the filters of a scan did to its files, row groups and rows. */
final class FilterEffects extends Serializable {
  // Bit sets of columns of the spec.
  private var evaluated, selective, skipped = 0L
  // The tested rows by filter, then the passed rows by filter. A filter tests only rows that passed those before it.
  private var tests = Array.empty[Long]

  /** Records that the filter of a column was applied to the statistics of a file or row group.
    *
    * @param isSelective
    *   whether it excluded rows or might have, because statistics do not prove that all rows pass
    */
  def record(column: Int, isSelective: Boolean): Unit = {
    evaluated |= bit(column)
    if (isSelective) selective |= bit(column)
  }

  /** Records that a file or row group was skipped or never reached, so that the effect of the column's filter on it is
    * unknown.
    */
  def recordSkipped(column: Int): Unit = skipped |= bit(column)

  /** Records the tests of rows, as [[RowTests.counts]]. */
  def recordTests(counts: Array[Long]): Unit = tests = counts

  def isEvaluated(column: Int): Boolean = (evaluated & bit(column)) != 0
  def isSelective(column: Int): Boolean = (selective & bit(column)) != 0
  def isSkipped(column: Int): Boolean = (skipped & bit(column)) != 0

  /** A filter tests only rows that passed the filters before it. */
  def rowsTested(filter: Int): Long = if (filter < tests.length / 2) tests(filter) else 0L
  def rowsPassed(filter: Int): Long = if (filter < tests.length / 2) tests(tests.length / 2 + filter) else 0L

  private def bit(column: Int): Long = if (column < java.lang.Long.SIZE) 1L << column else 0L

  def merge(other: FilterEffects): Unit = {
    evaluated |= other.evaluated
    selective |= other.selective
    skipped |= other.skipped
    tests = tests.zipAll(other.tests, 0L, 0L).map { case (a, b) => a + b }
  }
}

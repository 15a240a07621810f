package org.dynamicfilters.filter

/** Measures the time in which a task computes its build keys, and says when to stop. A key may be an expensive
  * expression, which the tap evaluates once more than stock Spark does. Not thread-safe.
  */
final class KeyCost {
  import KeyCost._

  private var rows = 0L
  private var spent = 0L

  /** Whether to measure the next row. Only some rows are measured, because reading the clock costs as much as a simple
    * key.
    */
  def measuresNext: Boolean = rows < FirstRows || rows % Every == 0

  /** Records a row that was not measured. */
  def skipped(): Unit = rows += 1

  /** Records the time of a measured row. */
  def took(nanos: Long): Unit = {
    val of = if (rows < FirstRows) 1 else Every
    // Bounded, because the process may have paused.
    spent += math.min(nanos * of, MostOfOne)
    rows += 1
  }

  /** Whether to stop collecting keys. */
  def isTooMuch: Boolean = spent > EnoughNanos && spent > rows * MostPerRow
}

object KeyCost {
  private val FirstRows = 64
  private val Every = 16

  /** Not measured. A key that is a column takes less than 50 ns (see the cost of the tap in docs/how-it-works.md). */
  private val MostPerRow = 10000L

  /** Below this nothing is decided: code that has just started is slow. */
  private val EnoughNanos = 50L * 1000 * 1000
  private val MostOfOne = 10L * 1000 * 1000
}

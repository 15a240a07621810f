package org.dynamicfilters.filter

/**
 * What it takes one task to compute the keys that it collects: a key may be an expression of any cost, which stock Spark evaluates
 * too, but not once more for a filter. Not thread-safe.
 */
final class KeyCost {
  import KeyCost._

  private var rows = 0L
  private var spent = 0L

  /** Whether the next row is to be measured: of many rows only some, because a clock costs as much as a simple key. */
  def measuresNext: Boolean = rows < FirstRows || rows % Every == 0

  /** A row was not measured. */
  def skipped(): Unit = rows += 1

  /** A row took so long. */
  def took(nanos: Long): Unit = {
    val of = if (rows < FirstRows) 1 else Every
    // A pause of the process says nothing of the key.
    spent += math.min(nanos * of, MostOfOne)
    rows += 1
  }

  /** Whether the keys are to be given up. */
  def isTooMuch: Boolean = spent > EnoughNanos && spent > rows * MostPerRow
}

object KeyCost {

  /** In reports. */
  val TooMuch = "the build key takes long to compute"

  private val FirstRows = 64
  private val Every = 16

  /** A key that is a column takes less than 50 ns (what the tap costs, in docs/how-it-works.md). Chosen, not measured. */
  private val MostPerRow = 10000L

  /** Less is not worth a look: code that has just started is slow. */
  private val EnoughNanos = 50L * 1000 * 1000
  private val MostOfOne = 10L * 1000 * 1000
}

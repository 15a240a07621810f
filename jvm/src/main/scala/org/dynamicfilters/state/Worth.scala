package org.dynamicfilters.state

/** What tests of rows by a filter did.
  *
  * @param rows
  *   that were tested
  * @param passed
  *   how many of these passed
  */
final case class Tested(rows: Long, passed: Long, cost: Cost)

object Tested {
  val none: Tested = Tested(0, 0, Cost.none)
}

/** Whether it is worth testing rows by a filter one by one, by what that did so far. Thread-safe.
  *
  * @param giveUpSelectivity
  *   it is not where more than this share of the rows passed, nor where that is over its [[Budget]]; 1 never gives up
  */
final class Worth(giveUpSelectivity: Double) {
  private var rows, passed = 0L
  private val budget = new Budget

  def isGood: Boolean = synchronized {
    rows < Worth.FewRows || giveUpSelectivity >= 1 || (passed <= rows * giveUpSelectivity && !budget.isOver)
  }

  /** So many more rows were tested. */
  def add(more: Tested): Unit = synchronized {
    // What was seen last counts most: a table may be clustered.
    if (rows > Worth.ManyRows) { rows /= 2; passed /= 2 }
    rows += more.rows
    passed += more.passed
    budget.add(more.cost)
  }
}

private object Worth {

  /** Fewer say nothing. */
  private val FewRows = 1000L
  private val ManyRows = 10000000L
}

package org.dynamicfilters.state

/** Whether it is worth testing rows by a filter one by one, by what that did so far. Thread-safe.
  *
  * @param giveUpSelectivity
  *   it is not where more than this share of the rows passed; 1 never gives up
  */
final class Worth(giveUpSelectivity: Double) {
  private var rows, passed = 0L

  def isGood: Boolean = synchronized(rows < Worth.FewRows || passed <= rows * giveUpSelectivity)

  /** So many more rows were tested, and so many of them passed. */
  def add(more: Long, morePassed: Long): Unit = synchronized {
    // What was seen last counts most: a table may be clustered.
    if (rows > Worth.ManyRows) { rows /= 2; passed /= 2 }
    rows += more
    passed += morePassed
  }
}

private object Worth {

  /** Fewer say nothing. */
  private val FewRows = 1000L
  private val ManyRows = 10000000L
}

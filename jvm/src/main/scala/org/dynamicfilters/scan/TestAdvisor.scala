package org.dynamicfilters.scan

/** Decides for a scan, from what its row groups took so far, whether rows that were read plainly are tested by filters of joins
  * of the same stage, which drop the same rows themselves.
  *
  * What a test saves is not told by what is done with the rows that pass: these go on to aggregates, the others no further than
  * to the hash table of their join, which may cost no more than the test. TPC-DS q03 took 196 ms of executors' processor time
  * with tests and 242 without, q65 (81 % of the rows do not pass) 60 ms more with them. So both ways are measured per row, up to
  * where the operators above the scan ask for the next row group, and the cheaper one is taken, the other one now and then.
  *
  * Shared by the tasks of a process. Thread-safe.
  *
  * @param neverGivesUp
  *   whether rows are tested whatever it costs
  */
private[scan] final class TestAdvisor(neverGivesUp: Boolean, ways: WaysMeasured) {
  import TestAdvisor._

  /** Whether to test the rows of the next row group. */
  def isWorthIt(): Boolean = {
    val isRetry = ways.decideTest() % RetryEvery == 0
    if (neverGivesUp || !ways.tested.isKnown) true
    else if (!ways.untested.isKnown) false
    else (ways.tested.perRow < ways.untested.perRow * Margin) != isRetry
  }

  def spent(tested: Boolean, rows: Long, nanos: Long): Unit =
    if (rows > 0) (if (tested) ways.tested else ways.untested).add(nanos.toDouble / rows)
}

private[scan] object TestAdvisor {

  /** Row groups of fewer rows say nothing of what a row costs, and to test them costs nothing. */
  val LeastRows = 10000L

  /** A test must be cheaper by this factor, which is more than two measurements of the same differ by: without it rows go as in
    * stock Spark. In TPC-DS q03 it is 0.8.
    */
  private val Margin = 0.93
  private val RetryEvery = 16L
}

package org.dynamicfilters.state

import org.dynamicfilters.filter.KeyLimits
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

/** What the driver keeps of scans and build sides that run. */
class RunningStagesSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val limits = KeyLimits(maxRows = 10, inMaxValues = 10, bloomFpp = 0.01, maxFilterBytes = 1024)
  private def state = new JoinFilterState(1, nullsMatch = false, limits)

  // Before as well: queries of other suites in this process have ended, with the same execution ids.
  override protected def beforeEach(): Unit = clear()
  override protected def afterEach(): Unit = clear()

  private def clear(): Unit = {
    RunningScans.clear()
    RunningBuilds.clear()
  }

  test("an entry goes with its stage or with its execution") {
    RunningScans.started(1, 10, Seq(state))
    RunningScans.started(1, 11, Seq(state))
    RunningBuilds.started(1, 12, Seq(state))
    RunningBuilds.started(1, 13, Seq(state))
    RunningScans.ended(10)
    RunningBuilds.ended(12)
    assert(RunningScans.live == 1 && RunningBuilds.live == 1)
    RunningScans.executionEnded(1)
    RunningBuilds.executionEnded(1)
    assert(RunningScans.live == 0 && RunningBuilds.live == 0)
  }

  test("what a cancelled query's threads start after its end is not kept") {
    RunningScans.executionEnded(1)
    RunningBuilds.executionEnded(1)
    val s = state
    RunningScans.started(1, 10, Seq(s))
    RunningBuilds.started(1, 11, Seq(state))
    assert(RunningScans.live == 0 && RunningBuilds.live == 0)
    assert(s.scansEnded)
  }

  test("a build side that ended before every partition had reported lets go whoever waits, and says so") {
    val s = state
    s.started(2)
    RunningBuilds.started(1, 10, Seq(s))
    assert(!s.isSettled)
    RunningBuilds.ended(10)
    assert(s.isSettled && s.isIncomplete && s.current.isEmpty)
    s.disable("the query ended")
    assert(s.phase == JoinPhase.Disabled(JoinFilterState.Incomplete))
  }
}

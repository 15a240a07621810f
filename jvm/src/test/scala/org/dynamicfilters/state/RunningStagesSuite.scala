package org.dynamicfilters.state

import org.dynamicfilters.filter.KeyLimits
import org.dynamicfilters.reasons.Reasons
import org.scalatest.funsuite.AnyFunSuite

/** What the driver keeps of scans and build sides that run. */
class RunningStagesSuite extends AnyFunSuite {
  private val limits = KeyLimits(maxRows = 10, inMaxValues = 10, bloomFpp = 0.01, maxFilterBytes = 1024)
  private def state = new JoinState(1, nullsMatch = false, limits)
  private def live = (Executions.instance.all[RunningScan].size, Executions.instance.all[RunningBuild].size)

  test("an entry goes with its stage or with its execution") {
    val id = -101L
    RunningStages.scanStarted(id, -10, Seq(state))
    RunningStages.scanStarted(id, -11, Seq(state))
    RunningStages.buildStarted(id, -12, Seq(state))
    RunningStages.buildStarted(id, -13, Seq(state))
    RunningStages.ended(-10, well = true)
    RunningStages.ended(-12, well = false)
    assert(live == ((1, 2)), "a build side that failed is tried again")
    RunningStages.ended(-12, well = true)
    assert(live == ((1, 1)))
    Executions.instance.close(id)
    assert(live == ((0, 0)))
  }

  test("what a cancelled query's threads start after its end is not kept") {
    val id = -102L
    Executions.instance.close(id)
    RunningStages.scanStarted(id, -20, Seq(state))
    RunningStages.buildStarted(id, -21, Seq(state))
    assert(live == ((0, 0)))
  }

  test("a build side that ended before every partition had reported lets go whoever waits, and says so") {
    val id = -103L
    val s = state
    s.started(2)
    RunningStages.buildStarted(id, -30, Seq(s))
    assert(!s.isSettled)
    RunningStages.ended(-30, well = true)
    assert(s.isSettled && s.isIncomplete && s.current.isEmpty)
    s.disable(Reasons.QueryEnded)
    assert(s.phase == JoinPhase.Disabled(Reasons.Incomplete))
    Executions.instance.close(id)
  }
}

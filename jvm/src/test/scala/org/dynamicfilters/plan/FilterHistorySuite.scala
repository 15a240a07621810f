package org.dynamicfilters.plan

import org.dynamicfilters.plan.FilterHistory.{Make, Use, Waits}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Cost, Tested}
import org.scalatest.funsuite.AnyFunSuite

class FilterHistorySuite extends AnyFunSuite {
  private val use = Use(Make, 2)
  private val rows = 10000L

  /** Filters of a column `k`. */
  private class Fixture {
    val history = new FilterHistory
    private var executions = 0L

    def saw(passed: Long, tables: Seq[Any] = Seq(10), filter: Int = 1, use: Use = use, again: Boolean = false): Unit = {
      if (!again) executions += 1
      history.record(executions, filter, "k", use, tables, Tested(rows, passed, Cost.none), 0.6, Reasons.AllPassed)
    }

    def isMade(tables: Seq[Any] = Seq(10), filter: Int = 1, use: Use = use): Boolean =
      history.whySkipped(null, filter, "k", use, tables).isEmpty
  }

  test("a filter is not made after two executions in which all rows passed it") {
    val f = new Fixture
    assert(!f.history.knows(1, "k") && f.isMade())
    f.saw(rows)
    (1 to 3).foreach(_ => f.saw(rows, again = true))
    assert(f.isMade(), "one execution counts once")
    f.saw(rows)
    assert(!f.isMade() && f.history.whySkipped(null, 1, "k", use, Seq(10)).contains(Reasons.AllPassed))
    assert(f.history.knows(1, "k") && !f.history.knows(1, "j"))
    assert(f.isMade(filter = 3) && f.isMade(use = use.copy(step = Waits)))
  }

  test("it is made again where a table has changed, and after an execution in which it was of use") {
    val f = new Fixture
    (1 to 2).foreach(_ => f.saw(rows))
    assert(f.isMade(Seq(11)))
    f.saw(rows, Seq(11))
    assert(f.isMade(Seq(11)))
    f.saw(rows, Seq(11))
    assert(!f.isMade(Seq(11)))
    f.saw(rows / 2, Seq(11))
    assert(f.isMade(Seq(11)))
  }

  test("it is tried again after 16 executions, each of which has one answer") {
    val f = new Fixture
    (1 to 2).foreach(_ => f.saw(rows))
    def isMade(execution: Int) = f.history.whySkipped(execution.toString, 1, "k", use, Seq(10)).isEmpty
    (1 to 15).foreach(e => (1 to 20).foreach(_ => assert(!isMade(e))))
    (1 to 20).foreach(_ => assert(isMade(16)))
    assert(!isMade(17))
  }

  test("the oldest are forgotten") {
    val f = new Fixture
    (0 to 5000).foreach(i => (1 to 2).foreach(_ => f.saw(rows, filter = i)))
    assert(f.isMade(filter = 0) && !f.isMade(filter = 5000))
  }
}

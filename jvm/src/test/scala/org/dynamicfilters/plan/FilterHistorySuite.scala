package org.dynamicfilters.plan

import org.dynamicfilters.plan.FilterHistory.Use
import org.scalatest.funsuite.AnyFunSuite

class FilterHistorySuite extends AnyFunSuite {

  /** Filters of a column `k`. */
  private class Fixture {
    val history = new FilterHistory
    private var executions = 0L

    def saw(wasOfUse: Boolean, tables: Seq[Any] = Seq(10), filter: Int = 1, again: Boolean = false): Unit = {
      if (!again) executions += 1
      history.record(executions, Use(filter, "k", 2), tables, wasOfUse)
    }
    def isMade(tables: Seq[Any] = Seq(10), filter: Int = 1, scan: Int = 2): Boolean =
      !history.isUseless(Use(filter, "k", scan), tables)
  }

  test("a filter is not made after two executions in which it was of no use") {
    val f = new Fixture
    assert(f.isMade())
    f.saw(wasOfUse = false)
    (1 to 3).foreach(_ => f.saw(wasOfUse = false, again = true))
    assert(f.isMade(), "one execution counts once")
    f.saw(wasOfUse = false)
    assert(!f.isMade() && f.isMade(filter = 3) && f.isMade(scan = 3))
  }

  test("it is made again where a table has changed, and after an execution in which it was of use") {
    val f = new Fixture
    (1 to 2).foreach(_ => f.saw(wasOfUse = false))
    assert(f.isMade(Seq(11)))
    f.saw(wasOfUse = false, Seq(11))
    assert(f.isMade(Seq(11)))
    f.saw(wasOfUse = false, Seq(11))
    assert(!f.isMade(Seq(11)))
    f.saw(wasOfUse = true, Seq(11))
    assert(f.isMade(Seq(11)))
  }

  test("the oldest are forgotten") {
    val f = new Fixture
    (0 to 5000).foreach(i => (1 to 2).foreach(_ => f.saw(wasOfUse = false, filter = i)))
    assert(f.isMade(filter = 0) && !f.isMade(filter = 5000))
  }
}

package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

class TestAdvisorSuite extends AnyFunSuite {

  /** Rows groups of 100 rows, each read in the way that is asked for; how many of them were tested. */
  private def tested(a: TestAdvisor, groups: Int, withTest: Long, without: Long): Int = (1 to groups).count { _ =>
    val test = a.isWorthIt()
    a.spent(test, 100, 100 * (if (test) withTest else without))
    test
  }

  test("both ways are measured, and the cheaper one is taken but for one row group in 16") {
    assert(tested(new TestAdvisor(false, new WaysMeasured), 160, withTest = 10, without = 20) == 148)
    assert(tested(new TestAdvisor(false, new WaysMeasured), 160, withTest = 20, without = 10) == 12)
  }

  test("rows go as in stock Spark where a test saves next to nothing") {
    assert(tested(new TestAdvisor(false, new WaysMeasured), 160, withTest = 99, without = 100) == 12)
  }

  test("what earlier executions measured is known") {
    val ways = new WaysMeasured
    tested(new TestAdvisor(false, ways), 4, withTest = 20, without = 10)
    assert(!new TestAdvisor(false, ways).isWorthIt())
  }

  test("with a share of 1 all rows are tested, whatever that costs") {
    assert(tested(new TestAdvisor(true, new WaysMeasured), 160, withTest = 20, without = 10) == 160)
  }

  test("row groups without rows tell nothing of the cost") {
    val ways = new WaysMeasured
    (1 to 3).foreach(_ => new TestAdvisor(false, ways).spent(tested = true, 0, 5))
    assert(!ways.tested.isKnown)
  }
}

package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

class StepAdvisorSuite extends AnyFunSuite {
  test("a filter that lets most rows pass is given up, and tried again now and then") {
    val a = new StepAdvisor(0.6)
    assert(a.isWorthIt() && !a.judge(100, 70))
    assert(a.isWorthIt() && a.judge(100, 100), "given up")
    val tries = Iterator.continually(a.isWorthIt()).take(64).count(identity)
    assert(tries > 0 && tries < 8)
    assert(!a.judge(100, 100), "told once")
    a.judge(100, 10)
    assert(a.isWorthIt() && a.isWorthIt())
  }

  test("one row group that has all the matches does not decide") {
    val a = new StepAdvisor(0.6)
    (1 to 10).foreach { _ =>
      assert(!a.judge(100, 100) && !a.judge(100, 0))
      assert(a.isWorthIt())
    }
  }

  test("row groups of which no row comes so far say nothing") {
    val a = new StepAdvisor(0.0)
    (1 to 10).foreach(_ => assert(!a.judge(0, 0)))
    assert(a.isWorthIt())
  }

  test("look-ups that exclude nothing are given up after a few, never where nothing is to be given up") {
    val a = new StepAdvisor(0.9, missesToGiveUp = 4)
    (1 to 3).foreach(_ => assert(a.isWorthIt() && !a.judge(1, 1)))
    assert(a.isWorthIt() && a.judge(1, 1), "given up")
    assert(Iterator.continually(a.isWorthIt()).take(32).count(identity) == 2)
    a.judge(1, 0)
    assert(a.isWorthIt(), "one that was excluded brings it back")
    val patient = new StepAdvisor(1, missesToGiveUp = 4)
    (1 to 50).foreach(_ => assert(patient.isWorthIt() && !patient.judge(1, 1)))
  }
}

package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

class TupleAdvisorSuite extends AnyFunSuite {
  test("a filter that lets most rows pass is given up, and tried again now and then") {
    val a = new TupleAdvisor(0.6)
    assert(a.isWorthIt() && !a.judge(100, 70))
    assert(a.isWorthIt() && a.judge(100, 100), "given up")
    val tries = Iterator.continually(a.isWorthIt()).take(64).count(identity)
    assert(tries > 0 && tries < 8)
    assert(!a.judge(100, 100), "told once")
    a.judge(100, 10)
    assert(a.isWorthIt() && a.isWorthIt())
  }

  test("one row group that has all the matches does not decide") {
    val a = new TupleAdvisor(0.6)
    (1 to 10).foreach { _ =>
      assert(!a.judge(100, 100) && !a.judge(100, 0))
      assert(a.isWorthIt())
    }
  }

  test("row groups of which no row comes so far say nothing") {
    val a = new TupleAdvisor(0.0)
    (1 to 10).foreach(_ => assert(!a.judge(0, 0)))
    assert(a.isWorthIt())
  }
}

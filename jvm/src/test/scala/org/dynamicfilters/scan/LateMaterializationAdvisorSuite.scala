package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

class LateMaterializationAdvisorSuite extends AnyFunSuite {
  private def advisor = new LateMaterializationAdvisor(giveUpSelectivity = 0.6)

  test("the first row group is tried late")(assert(advisor.prefersLate() && !advisor.gaveUp))

  test("while whole pages are left out there is no doubt") {
    val a = advisor
    (1 to 50).foreach { _ =>
      assert(a.prefersLate())
      a.judge(0.01, 0.1, selects = true)
      a.spent(late = true, 100, 1000000)
    }
    assert(!a.gaveUp)
  }

  test("a filter that lets most rows pass is given up, and tried again now and then") {
    val a = advisor
    a.judge(0.9, 0.1, selects = true)
    assert(!a.gaveUp)
    a.judge(0.9, 0.1, selects = true)
    assert(a.gaveUp)
    val again = (1 to 160).count(_ => a.prefersLate())
    assert(again == 10)
    a.judge(0.1, 0.0, selects = true)
    assert(!a.gaveUp && a.prefersLate())
  }

  test("where all pages are read anyway, the cheaper way is taken") {
    Seq(true, false).foreach { lateIsCheaper =>
      val a = advisor
      a.judge(0.3, 1.0, selects = true)
      a.spent(late = true, 100, if (lateIsCheaper) 1000L else 100000L)
      // Nothing is known of the other way yet.
      assert(!a.prefersLate())
      (1 to 2).foreach(_ => a.spent(late = false, 100, 10000L))
      val late = (1 to 160).count(_ => a.prefersLate())
      assert(if (lateIsCheaper) late == 150 else late == 10)
    }
  }

  test("row groups without rows tell nothing of the cost") {
    val a = advisor
    a.judge(0.3, 1.0, selects = true)
    (1 to 3).foreach(_ => a.spent(late = false, 0, 10))
    assert(!a.prefersLate())
  }

  test("a pass before the first bound is forgiven, but not for ever") {
    val a = advisor
    (1 to 2).foreach { _ =>
      a.judge(1.0, 1.0, selects = false)
      assert(a.prefersLate() && !a.gaveUp)
    }
    (1 to 2).foreach(_ => a.judge(1.0, 1.0, selects = false))
    assert(a.gaveUp)
  }

  test("with a share of 1 it never gives up, whatever it costs") {
    val a = new LateMaterializationAdvisor(giveUpSelectivity = 1)
    (1 to 50).foreach { _ =>
      assert(a.prefersLate())
      a.judge(1.0, 1.0, selects = true)
      a.spent(late = true, 100, 1000000)
    }
    assert(!a.gaveUp)
  }
}

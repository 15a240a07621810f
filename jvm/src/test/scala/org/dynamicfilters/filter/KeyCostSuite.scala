package org.dynamicfilters.filter

import org.scalatest.funsuite.AnyFunSuite

class KeyCostSuite extends AnyFunSuite {

  /** After how many rows keys are given up that take so long each; None if they are not, of 100,000. */
  private def givesUpAfter(nanos: Int => Long): Option[Int] = {
    val cost = new KeyCost
    (0 until 100000).find { i =>
      if (cost.measuresNext) cost.took(nanos(i)) else cost.skipped()
      cost.isTooMuch
    }
  }

  test("keys that take long are given up, the sooner the longer they take") {
    val after = Seq(20000L, 200000L, 20000000L).map(n => givesUpAfter(_ => n))
    assert(after.forall(_.isDefined) && after.flatten == after.flatten.sorted.reverse)
    assert(after.last.get < 10)
  }

  test("keys of usual cost are not given up, however many, nor for a pause or a slow start") {
    assert(givesUpAfter(_ => 2000L).isEmpty)
    assert(givesUpAfter(i => if (i < 30) 1000000L else 500L).isEmpty)
    assert(givesUpAfter(i => if (i % 20000 == 16) 500000000L else 500L).isEmpty)
  }
}

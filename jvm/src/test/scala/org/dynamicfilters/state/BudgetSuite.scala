package org.dynamicfilters.state

import org.scalatest.funsuite.AnyFunSuite

class BudgetSuite extends AnyFunSuite {
  private val Millis = 1000000L

  test("what saves more than it costs is never over its budget") {
    val b = new Budget
    (1 to 1000).foreach { _ =>
      b.add(Cost(10 * Millis, 11 * Millis, 20 * Millis))
      assert(!b.isOver)
    }
  }

  test("what saves nothing takes three hundredths of the work at most, and a moment at the start") {
    val b = new Budget
    var spent, work = 0L
    (1 to 10000).foreach { _ =>
      val step = if (b.isOver) 0L else 2 * Millis
      spent += step
      work += 10 * Millis
      b.add(Cost(step, 0, 10 * Millis))
    }
    assert(spent <= work * 0.037, spent)
    assert(spent >= work * 0.02, "it is tried again as work goes on")
  }

  test("a part of a table where it saves brings it back") {
    val b = new Budget
    b.add(Cost(1000 * Millis, 0, 2000 * Millis))
    assert(b.isOver)
    b.add(Cost(100 * Millis, 1200 * Millis, 200 * Millis))
    assert(!b.isOver)
  }

  test("tests of rows: by what passes and by what they cost") {
    def worth(giveUp: Double, tested: Tested*) = {
      val w = new Worth(giveUp)
      tested.foreach(w.add)
      w.isGood
    }
    val dear = Cost(100 * Millis, 10 * Millis, 200 * Millis)
    assert(worth(0.6, Tested(100000, 10000, Cost(Millis, 10 * Millis, 200 * Millis))))
    assert(!worth(0.6, Tested(100000, 10000, dear)))
    assert(!worth(0.6, Tested(100000, 90000, Cost.none)))
    assert(worth(1, Tested(100000, 90000, dear)), "1 never gives up")
    assert(worth(0.6, Tested(10, 10, dear)), "too few to tell")
  }
}

package org.dynamicfilters.state

import org.scalatest.funsuite.AnyFunSuite

/** Trackers in scans whose steps take simulated times. */
class StepTrackerSuite extends AnyFunSuite {

  private val Millis = 1000000L
  private val rows = 10000L

  private def tracker(giveUp: Double = 0.6) = new StepTracker(giveUp)
  private def record(t: StepTracker, share: Double): Boolean = t.recordRows(rows, (rows * share).toLong)
  private def taken(t: StepTracker, chances: Int): Int = (1 to chances).count(_ => t.takesNext())

  /** How often the step is taken in so many row groups, whose rows take these nanoseconds. */
  private def compared(t: StepTracker, groups: Int, withStep: Double, without: Double): Int = (1 to groups).count { _ =>
    val takes = t.takesNext()
    t.recordTime(takes, rows, (rows * (if (takes) withStep else without)).toLong)
    takes
  }

  test("a step is taken until something is known of it, and then while it leaves rows out") {
    val t = tracker()
    assert(t.takesNext())
    (1 to 100).foreach { _ =>
      assert(t.takesNext() && !record(t, 0.5) && !t.isDisabled)
    }
  }

  test("a step that lets most rows pass twice in a row is disabled, once") {
    val t = tracker()
    assert(!record(t, 0.7) && !t.isDisabled)
    assert(record(t, 1.0) && t.isDisabled)
    assert(!record(t, 1.0))
    val changing = tracker()
    (1 to 10).foreach(_ => assert(!record(changing, 1.0) && !record(changing, 0.0)))
  }

  test("few rows say nothing, and add up") {
    val t = tracker()
    assert(!t.recordRows(499, 499))
    (1 to 10).foreach(_ => t.recordTime(withStep = true, 999, Millis))
    assert(t.takesNext())
    // 998 rows are a result, and 998 more are the second one.
    assert((1 to 3).map(_ => t.recordRows(499, 499)) == Seq(false, false, true))
    assert(t.isDisabled)
  }

  test("a disabled step is tried after 16 chances, and each try in vain doubles the number") {
    val t = tracker()
    (1 to 2).foreach(_ => record(t, 1.0))
    assert(taken(t, 15) == 0 && t.takesNext())
    record(t, 1.0)
    assert(taken(t, 31) == 0 && t.takesNext())
    assert(taken(t, 10000) <= 10000 / 256 + 3)
    record(t, 0.1)
    assert(!t.isDisabled && taken(t, 100) == 100)
    (1 to 2).foreach(_ => record(t, 1.0))
    assert(taken(t, 16) == 1, "the pause begins anew")
  }

  test("a step that saves more than it costs is never over its budget") {
    val t = tracker()
    (1 to 1000).foreach { _ =>
      t.recordCost(10 * Millis, 11 * Millis, 20 * Millis)
      assert(t.takesNext())
    }
  }

  test("a step that saves nothing takes three hundredths of the work at most, and a moment at the start") {
    val t = tracker()
    var spent, work = 0L
    (1 to 10000).foreach { _ =>
      val step = if (t.takesNext()) 2 * Millis else 0L
      spent += step
      work += 10 * Millis
      t.recordCost(step, 0, 10 * Millis)
    }
    assert(spent <= work * 0.037, spent)
    assert(spent >= work * 0.02, "it is tried again as work goes on")
  }

  test("a part of a table where it saves brings a step back") {
    val t = tracker()
    assert(t.recordCost(1000 * Millis, 0, 2000 * Millis) && !t.takesNext())
    t.recordCost(100 * Millis, 1200 * Millis, 200 * Millis)
    assert(t.takesNext())
  }

  test("two ways of reading are both measured, and the faster one is taken") {
    for ((withStep, share) <- Seq((10.0, 0.9), (99.0, 0.1), (200.0, 0.1))) {
      val t = tracker()
      t.recordBytesLeft(1)
      val taken = compared(t, 320, withStep, without = 100)
      assert(if (share > 0.5) taken > 320 * share else taken < 320 * share, s"$withStep: $taken")
      assert(t.isDisabled == (share < 0.5))
    }
  }

  test("ways are not compared while whole pages are left out") {
    val t = tracker()
    t.recordBytesLeft(0.1)
    assert(compared(t, 100, withStep = 200, without = 100) == 100)
    t.recordBytesLeft(0.9)
    assert(!t.takesNext() && !t.isDisabled)
  }

  test("what disturbed one measurement does not count, and old ones are forgotten") {
    val t = tracker()
    t.recordBytesLeft(1)
    def took(withStep: Boolean, nanosPerRow: Long*): Unit =
      nanosPerRow.foreach(n => t.recordTime(withStep, rows, n * rows))
    took(withStep = true, 50, 5000)
    took(withStep = false, 100, 110)
    assert(!t.isDisabled)
    took(withStep = true, 200, 200, 200, 200)
    assert(t.isDisabled)
  }

  test("with a share of 1 a step is always taken, whatever it costs") {
    val t = tracker(1)
    t.recordBytesLeft(1)
    (1 to 50).foreach { _ =>
      assert(t.takesNext() && !record(t, 1.0) && !t.recordCost(100 * Millis, 0, 100 * Millis))
      t.recordTime(withStep = true, rows, 100 * Millis)
      t.recordTime(withStep = false, rows, Millis)
    }
    assert(!t.isDisabled)
  }
}

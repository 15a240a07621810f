package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

class LateMaterializationAdvisorSuite extends AnyFunSuite {
  private def advisor = new LateMaterializationAdvisor(giveUpSelectivity = 0.6)

  test("the first row group is tried late")(assert(advisor.prefersLate(first = false) && !advisor.gaveUp))

  test("while whole pages are left out there is no doubt") {
    val a = advisor
    (1 to 50).foreach { _ =>
      assert(a.prefersLate(first = false))
      a.judge(0.01, 0.1, selects = true)
      a.spent(late = true, first = false, 100, 1000000)
    }
    assert(!a.gaveUp)
  }

  test("a filter that lets most rows pass is given up, and tried again now and then") {
    val a = advisor
    a.judge(0.9, 0.1, selects = true)
    assert(!a.gaveUp)
    a.judge(0.9, 0.1, selects = true)
    assert(a.gaveUp)
    val again = (1 to 160).count(_ => a.prefersLate(first = false))
    assert(again == 10)
    a.judge(0.1, 0.0, selects = true)
    assert(!a.gaveUp && a.prefersLate(first = false))
  }

  // Where all pages are read anyway.
  private def scattered() = {
    val a = new LateMaterializationAdvisor(giveUpSelectivity = 0.6)
    a.judge(0.3, 1.0, selects = true)
    a
  }
  private def spend(a: LateMaterializationAdvisor, late: Boolean, nanosPerRow: Long*): Unit =
    nanosPerRow.foreach(n => a.spent(late, first = false, 100, n * 100))

  test("where all pages are read anyway, the cheaper way is taken") {
    Seq(true, false).foreach { lateIsCheaper =>
      val a = scattered()
      assert(a.prefersLate(first = false))
      val nanos = if (lateIsCheaper) 10L else 1000L
      spend(a, late = true, nanos, nanos)
      // Nothing is known of the other way yet.
      assert(!a.prefersLate(first = false) && !a.gaveUp)
      spend(a, late = false, 100, 100)
      val late = (1 to 160).count(_ => a.prefersLate(first = false))
      assert(late == (if (lateIsCheaper) 150 else 10))
      assert(a.gaveUp != lateIsCheaper)
    }
  }

  test("where every attempt decides the same, time does not count") {
    val a = new LateMaterializationAdvisor(giveUpSelectivity = 0.6, byTime = false)
    a.judge(0.3, 1.0, selects = true)
    spend(a, late = true, 1000, 1000)
    spend(a, late = false, 1, 1)
    assert((1 to 40).forall(_ => a.prefersLate(first = false)))
    assert(a.prefersPlainAfterPass(first = false, byteShare = 0.95))
    assert(!a.prefersPlainAfterPass(first = false, byteShare = 0.5))
    (1 to 2).foreach(_ => a.judge(0.9, 1.0, selects = true))
    assert(a.gaveUp && (1 to 32).count(_ => a.prefersLate(first = false)) == 2)
  }

  test("what disturbed one measurement does not count") {
    val a = scattered()
    spend(a, late = true, 50, 5000)
    spend(a, late = false, 100, 110)
    assert(a.prefersLate(first = false))
    // What was once cheap is forgotten.
    spend(a, late = true, 200, 200, 200, 200)
    assert(!a.prefersLate(first = false))
  }

  test("what a pass has shown to be in all pages is read plainly, where that was cheaper") {
    val a = scattered()
    spend(a, late = true, 1000, 1000)
    assert(!a.prefersPlainAfterPass(first = false, byteShare = 1.0))
    spend(a, late = false, 100, 100)
    def plain(share: Double) = a.prefersPlainAfterPass(first = false, share)
    assert(plain(1.0) && !plain(0.2) && !a.prefersPlainAfterPass(first = true, byteShare = 1.0))
    assert((1 to 160).count(_ => a.prefersLate(first = false) && a.lastIsTrial) == 10)
    val never = new LateMaterializationAdvisor(giveUpSelectivity = 1)
    spend(never, late = true, 1000, 1000)
    spend(never, late = false, 100, 100)
    assert(!never.prefersPlainAfterPass(first = false, byteShare = 1.0))
  }

  test("the first row group of a split is compared with others of that kind only") {
    val a = scattered()
    (1 to 2).foreach(_ => a.spent(late = true, first = true, 100, 100000))
    assert(a.prefersLate(first = false))
    spend(a, late = true, 50, 50)
    spend(a, late = false, 100, 100)
    assert(a.prefersLate(first = false) && !a.gaveUp)
    // Nothing is known of such a row group that is read plainly.
    assert(!a.prefersLate(first = true))
    (1 to 2).foreach(_ => a.spent(late = false, first = true, 100, 10000))
    assert(!a.prefersLate(first = true) && a.prefersLate(first = false) && a.gaveUp)
  }

  test("row groups without rows tell nothing of the cost") {
    val a = scattered()
    spend(a, late = true, 100, 100)
    (1 to 3).foreach(_ => a.spent(late = false, first = false, 0, 10))
    assert(!a.prefersLate(first = false))
  }

  test("a pass before the first bound is forgiven, but not for ever") {
    val a = advisor
    (1 to 2).foreach { _ =>
      a.judge(1.0, 1.0, selects = false)
      assert(a.prefersLate(first = false) && !a.gaveUp)
    }
    (1 to 2).foreach(_ => a.judge(1.0, 1.0, selects = false))
    assert(a.gaveUp)
  }

  test("with a share of 1 it never gives up, whatever it costs") {
    val a = new LateMaterializationAdvisor(giveUpSelectivity = 1)
    (1 to 50).foreach { _ =>
      assert(a.prefersLate(first = false))
      a.judge(1.0, 1.0, selects = true)
      a.spent(late = true, first = false, 100, 1000000)
    }
    assert(!a.gaveUp)
  }

  test("what earlier executions measured is known, and one row group of each is tried all the same") {
    val ways = new WaysMeasured
    def execution() = new LateMaterializationAdvisor(giveUpSelectivity = 0.6, ways)
    val first = execution()
    assert(first.prefersLate(first = false))
    first.judge(0.3, 1.0, selects = true)
    spend(first, late = true, 1000, 1000)
    spend(first, late = false, 100, 100)
    assert(!first.prefersLate(first = false))
    val later = execution()
    assert(later.prefersLate(first = false))
    later.judge(0.3, 1.0, selects = true)
    assert(!later.prefersLate(first = false) && later.gaveUp)
    // The retries of several short executions add up.
    val retried = (1 to 32).count { _ =>
      val a = execution()
      a.judge(0.3, 1.0, selects = true)
      a.prefersLate(first = false)
    }
    assert(retried == 2)
  }

  test("what the same filters left out before is expected again, of other ones a row group is tried") {
    val ways = new WaysMeasured
    def execution() = new LateMaterializationAdvisor(giveUpSelectivity = 0.6, ways)
    def prefersLate(a: LateMaterializationAdvisor, text: String) = a.prefersLate(first = false, text)
    val first = execution()
    assert(prefersLate(first, "k = 1"))
    first.judge(0.3, 1.0, selects = true)
    spend(first, late = true, 1000, 1000)
    spend(first, late = false, 100, 100)
    assert(!prefersLate(execution(), "k = 1"))
    assert(prefersLate(execution(), "k = 2"))
    // Those that leave whole pages out are worth it whatever was measured.
    val clear = execution()
    assert(prefersLate(clear, "k = 3"))
    clear.judge(0.01, 0.1, selects = true)
    assert(prefersLate(execution(), "k = 3"))
    // So are those that are not to be known.
    assert(prefersLate(execution(), ""))
  }

  test("filters that let most rows pass before are seldom tried again") {
    val ways = new WaysMeasured
    def execution() = new LateMaterializationAdvisor(giveUpSelectivity = 0.6, ways)
    val first = execution()
    (1 to 2).foreach { _ =>
      first.prefersLate(first = false, "k < 9")
      first.judge(0.9, 1.0, selects = true)
    }
    assert(first.gaveUp)
    val again = (1 to 256).count(_ => execution().prefersLate(first = false, "k < 9"))
    assert(again == 2)
  }
}

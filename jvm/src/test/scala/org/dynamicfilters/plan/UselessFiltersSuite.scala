package org.dynamicfilters.plan

import java.util.concurrent.TimeUnit

import org.dynamicfilters.plan.UselessFilters.{EnoughTimes, Use}
import org.scalatest.funsuite.AnyFunSuite

class UselessFiltersSuite extends AnyFunSuite {
  private val use = Use(1, 2, "k")
  private var now = 0L
  private def filters = new UselessFilters(() => now)

  test("a filter is useless once three executions have seen it so") {
    val f = filters
    assert(!f.knows(1, "k") && !f.isUseless(use, Seq(10)))
    for (execution <- Seq(1, 1, 1, 2, 2)) {
      f.saw(execution, use, Seq(10), useless = true)
      assert(!f.isUseless(use, Seq(10)))
    }
    f.saw(3, use, Seq(10), useless = true)
    assert(f.knows(1, "k") && !f.knows(1, "j") && f.isUseless(use, Seq(10)))
    assert(!f.isUseless(use.copy(filter = 3), Seq(10)) && !f.isUseless(use.copy(column = "j"), Seq(10)))
  }

  test("it is tried again after one use, and where a table has changed") {
    val f = filters
    (1 to EnoughTimes).foreach(f.saw(_, use, Seq(10), useless = true))
    assert(!f.isUseless(use, Seq(11)))
    f.saw(4, use, Seq(11), useless = true)
    assert(!f.isUseless(use, Seq(11)))
    (5 to 6).foreach(f.saw(_, use, Seq(11), useless = true))
    assert(f.isUseless(use, Seq(11)))
    f.saw(7, use, Seq(11), useless = false)
    assert(!f.knows(1, "k") && !f.isUseless(use, Seq(11)))
  }

  test("it is tried again after a while") {
    val f = filters
    (1 to EnoughTimes).foreach(f.saw(_, use, Seq(10), useless = true))
    now += TimeUnit.MINUTES.toNanos(11)
    assert(!f.isUseless(use, Seq(10)))
    f.saw(9, use, Seq(10), useless = true)
    assert(!f.isUseless(use, Seq(10)))
  }

  test("the oldest are forgotten") {
    val f = filters
    (0 to 5000).foreach(i => (1 to EnoughTimes).foreach(e => f.saw(e, use.copy(filter = i), Seq(10), useless = true)))
    assert(!f.isUseless(use.copy(filter = 0), Seq(10)) && f.isUseless(use.copy(filter = 5000), Seq(10)))
  }
}

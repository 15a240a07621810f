package org.dynamicfilters.state

import org.apache.spark.sql.types.IntegerType
import org.dynamicfilters.filter.KeyDomain
import org.scalatest.funsuite.AnyFunSuite

class LocalExchangeSuite extends AnyFunSuite {
  private val spec =
    TopKSpec(KeyDomain.of(IntegerType).toOption.get, 3, ascending = true, nullsFirst = false, tiesFree = true)

  private final class Fixture {
    var now = 0L
    val exchange = new LocalExchange(idleNanos = 100, () => now)
  }

  test("all who ask for a filter of an execution share it, and executions share nothing") {
    val f = new Fixture
    val a = f.exchange.topK(1, 7, 0, spec)
    assert(a.isDefined && f.exchange.topK(1, 7, 0, spec).exists(_ eq a.get))
    assert(!f.exchange.topK(1, 8, 0, spec).exists(_ eq a.get) && !f.exchange.topK(2, 7, 0, spec).exists(_ eq a.get))
    assert(f.exchange.liveExecutions == 2)
  }

  test("attachments are made once an execution and key") {
    val f = new Fixture
    var made = 0
    def ask(execution: Long, key: String) = f.exchange.shared(execution, key) { made += 1; new Object }
    assert(ask(1, "a").get eq ask(1, "a").get)
    assert(made == 1)
    assert(ask(1, "b").get ne ask(2, "a").get)
    assert(made == 3)
  }

  test("an execution that was closed never opens again") {
    val f = new Fixture
    f.exchange.topK(1, 7, 0, spec)
    f.exchange.close(1)
    assert(f.exchange.liveExecutions == 0)
    assert(f.exchange.topK(1, 7, 0, spec).isEmpty && f.exchange.shared(1, "a")(new Object).isEmpty)
    f.exchange.enter(1)
    f.exchange.leave(1)
    assert(f.exchange.liveExecutions == 0)
  }

  test("an execution may be closed before any task of it was seen, and twice") {
    val f = new Fixture
    f.exchange.close(5)
    f.exchange.close(5)
    assert(f.exchange.topK(5, 1, 0, spec).isEmpty && f.exchange.liveExecutions == 0)
  }

  test("while tasks of a closed execution still run they see no filter, and the last one removes it") {
    val f = new Fixture
    f.exchange.enter(1)
    f.exchange.enter(1)
    val before = f.exchange.topK(1, 7, 0, spec)
    assert(before.isDefined)
    f.exchange.close(1)
    assert(f.exchange.topK(1, 7, 0, spec).isEmpty)
    f.exchange.leave(1)
    assert(f.exchange.liveExecutions == 1)
    f.exchange.leave(1)
    assert(f.exchange.liveExecutions == 0)
  }

  test("what no task used for long is swept when a new execution comes") {
    val f = new Fixture
    f.exchange.topK(1, 7, 0, spec)
    f.now = 100
    f.exchange.topK(2, 7, 0, spec)
    assert(f.exchange.liveExecutions == 2)
    f.now = 150
    f.exchange.topK(3, 7, 0, spec)
    assert(f.exchange.liveExecutions == 2)
    f.now = 1000
    f.exchange.topK(4, 7, 0, spec)
    assert(f.exchange.liveExecutions == 1)
  }

  test("what a task still uses is not swept, however old") {
    val f = new Fixture
    f.exchange.enter(1)
    val before = f.exchange.topK(1, 7, 0, spec)
    f.now = 100000
    f.exchange.topK(2, 7, 0, spec)
    assert(f.exchange.topK(1, 7, 0, spec).exists(_ eq before.get))
    f.exchange.leave(1)
    f.now = 200000
    f.exchange.topK(3, 7, 0, spec)
    assert(f.exchange.liveExecutions == 1)
  }

  test("a swept execution starts anew when a task of it comes late") {
    val f = new Fixture
    val before = f.exchange.topK(1, 7, 0, spec).get
    f.now = 1000
    f.exchange.topK(2, 7, 0, spec)
    assert(f.exchange.topK(1, 7, 0, spec).exists(_ ne before))
  }
}

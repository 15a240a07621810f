package org.dynamicfilters.state

import scala.collection.mutable

import org.apache.spark.sql.types.IntegerType
import org.dynamicfilters.filter.KeyDomain
import org.scalatest.concurrent.TimeLimits
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

class ExecutionsSuite extends AnyFunSuite with TimeLimits {
  private val spec =
    TopKSpec(KeyDomain.forType(IntegerType).toOption.get, 3, ascending = true, nullsFirst = false, tiesFree = true)

  private final class Fixture {
    var now = 0L
    var running = Set.empty[Long]
    val executions = new Executions(idleNanos = 100, () => now, running(_))
    def topK(execution: Long, filter: Long = 7): Option[TopKState] =
      executions.open(execution).flatMap(_.topK(FilterName(filter, 0), spec))
  }

  test("all who ask for a filter of an execution share it, and executions share nothing") {
    val f = new Fixture
    val a = f.topK(1)
    assert(a.isDefined && f.topK(1).exists(_ eq a.get))
    assert(!f.topK(1, filter = 8).exists(_ eq a.get) && !f.topK(2).exists(_ eq a.get))
    assert(f.executions.live == 2)
  }

  test("attachments are made once an execution and key") {
    val f = new Fixture
    var made = 0
    def ask(execution: Long, key: String) = f.executions.attach(execution, key) { made += 1; new Object }
    assert(ask(1, "a").get eq ask(1, "a").get)
    assert(made == 1)
    assert(ask(1, "b").get ne ask(2, "a").get)
    assert(made == 3)
  }

  test("an execution that was closed never opens again") {
    val f = new Fixture
    f.topK(1)
    f.executions.close(1)
    assert(f.executions.live == 0)
    assert(f.topK(1).isEmpty && f.executions.attach(1, "a")(new Object).isEmpty)
    f.executions.enter(1)
    f.executions.leave(1)
    assert(f.executions.live == 0)
  }

  test("an execution may be closed before any task of it was seen, and twice") {
    val f = new Fixture
    f.executions.close(5)
    f.executions.close(5)
    assert(f.topK(5, filter = 1).isEmpty && f.executions.live == 0)
  }

  test("while tasks of a closed execution still run they see no filter, and the last one removes it") {
    val f = new Fixture
    f.executions.enter(1)
    f.executions.enter(1)
    val before = f.topK(1)
    assert(before.isDefined)
    f.executions.close(1)
    assert(f.topK(1).isEmpty)
    f.executions.leave(1)
    assert(f.executions.live == 1)
    f.executions.leave(1)
    assert(f.executions.live == 0)
  }

  test("what no task used for long is swept when a new execution comes") {
    val f = new Fixture
    f.topK(1)
    f.now = 100
    f.topK(2)
    assert(f.executions.live == 2)
    f.now = 150
    f.topK(3)
    assert(f.executions.live == 2)
    f.now = 1000
    f.topK(4)
    assert(f.executions.live == 1)
  }

  test("what a task still uses is not swept, however old") {
    val f = new Fixture
    f.executions.enter(1)
    val before = f.topK(1)
    f.now = 100000
    f.topK(2)
    assert(f.topK(1).exists(_ eq before.get))
    f.executions.leave(1)
    f.now = 200000
    f.topK(3)
    assert(f.executions.live == 1)
  }

  test("a swept execution starts anew when a task of it comes late") {
    val f = new Fixture
    val before = f.topK(1).get
    f.now = 1000
    f.topK(2)
    assert(f.topK(1).exists(_ ne before))
  }

  test("what is known to run is not swept, however old") {
    val f = new Fixture
    f.running = Set(1)
    val before = f.topK(1).get
    f.now = 1000
    f.topK(2)
    assert(f.topK(1).exists(_ eq before) && f.executions.live == 2)
    f.running = Set.empty
    f.now = 2000
    f.topK(3)
    assert(f.executions.live == 1)
  }

  private final class Resource(closed: mutable.Buffer[String], name: String) extends AutoCloseable {
    override def close(): Unit = {
      closed += name
      if (name.startsWith("bad")) throw new IllegalStateException(name)
    }
  }

  test("closing ends all that rooms attached, the newest first, and once") {
    val f = new Fixture
    val closed = mutable.Buffer.empty[String]
    Seq("a", "b", "c").foreach(n => f.executions.attach(1, n)(new Resource(closed, n)))
    f.executions.attach(2, "d")(new Resource(closed, "d"))
    assert(f.executions.all[Resource].size == 4)
    f.executions.close(1)
    f.executions.close(1)
    assert(closed == Seq("c", "b", "a") && f.executions.all[Resource].size == 1)
  }

  test("a resource that fails keeps no other open") {
    val f = new Fixture
    val closed = mutable.Buffer.empty[String]
    Seq("a", "bad 1", "b", "bad 2").foreach(n => f.executions.attach(1, n)(new Resource(closed, n)))
    f.executions.close(1)
    assert(closed == Seq("bad 2", "b", "bad 1", "a") && f.executions.live == 0)
  }

  test("what comes after the end is not made") {
    val f = new Fixture
    val closed = mutable.Buffer.empty[String]
    f.executions.attach(1, "a")(new Resource(closed, "a"))
    val held = f.executions.find(1).get
    f.executions.close(1)
    def late = new Resource(closed, fail("it was made"))
    assert(f.executions.attach(1, "b")(late).isEmpty && held.attach("b")(late).isEmpty)
    assert(f.executions.open(1).isEmpty && f.executions.find(1).isEmpty && f.executions.hasEnded(1))
  }

  test("one thing may end before the others, and does so once") {
    val f = new Fixture
    val closed = mutable.Buffer.empty[String]
    Seq("a", "b").foreach(n => f.executions.attach(1, n)(new Resource(closed, n)))
    assert(f.executions.detach[Resource]("a").isDefined && f.executions.detach[Resource]("a").isEmpty)
    f.executions.close(1)
    assert(closed == Seq("a", "b"))
  }

  test("whatever is attached while the execution ends is closed") {
    failAfter(60.seconds) {
      (1 to 2000).foreach { i =>
        val f = new Fixture
        val closed = new java.util.concurrent.atomic.AtomicInteger
        val made = new java.util.concurrent.atomic.AtomicInteger
        val threads = (1 to 3).map { t =>
          new Thread(() =>
            (1 to 20).foreach { n =>
              f.executions.attach(1, s"$t $n") {
                made.incrementAndGet()
                (() => closed.incrementAndGet()): AutoCloseable
              }
            }
          )
        }
        threads.foreach(_.start())
        if (i % 2 == 0) Thread.onSpinWait()
        f.executions.close(1)
        threads.foreach(_.join())
        assert(made.get == closed.get && f.executions.live == 0)
      }
    }
  }
}

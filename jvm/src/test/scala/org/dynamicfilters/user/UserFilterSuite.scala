package org.dynamicfilters.user

import scala.util.Random

import org.apache.spark.sql.types._
import org.dynamicfilters.exchange.{SimulatedCluster, Trouble}
import org.dynamicfilters.filter.{End, JavaCopy, KeyDomain, UserForms, ValueFilter}
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.state.{Executions, FilterSource, JoinState, TopKSpec, UserRef, UserState}
import org.scalatest.funsuite.AnyFunSuite

/** What executions and executors make of updates. */
class UserFilterSuite extends AnyFunSuite {
  private val long = KeyDomain.forType(LongType).toOption.get
  private def between(a: Long, b: Long): ValueFilter =
    ValueFilter.range(long, Some(End(Long.box(a), true)), Some(End(Long.box(b), true)), nulls = false)
  private def bitmap(step: Int): ValueFilter =
    UserForms.values(long, Iterator.range(0, 3000000, step).map(i => Long.box(i.toLong)), nulls = false, 10)
  private def filter() = new UserFilter("f", long, "token", SparkTests.session.sparkContext)

  test("an execution follows updates that tighten its filter, and no others") {
    val f = filter()
    f.update(between(0, 100))
    val ref = UserRef(f.current, follows = true)
    val state = UserState.of(-1, ref)
    def now = state.newest.number
    assert(now == 1)
    f.update(between(0, 50))
    assert(now == 2)
    f.update(between(0, 60)) // wider than the one before
    assert(now == 2)
    f.update(between(10, 20))
    assert(now == 4)
    f.update(ValueFilter.All)
    f.update(between(200, 300))
    assert(now == 4)
    f.update(ValueFilter.Nothing)
    assert(now == 7)
    // Another execution starts with what is in force, also if it was planned before.
    val later = UserState.of(-2, ref)
    assert(later.newest.number == 7)
    Executions.instance.close(-1)
    Executions.instance.close(-2)
    f.update(ValueFilter.Nothing)
    assert(now == 7 && Executions.instance.find(-1).isEmpty)
  }

  test("one that does not follow stays") {
    val f = filter()
    val state = UserState.of(-3, UserRef(f.current, follows = false))
    f.update(between(0, 50))
    assert(state.newest.number == 0)
    Executions.instance.close(-3)
  }

  test("the same generation has the same filter in plans, another one has another") {
    val f = filter()
    val first = UserRef(f.current, follows = true)
    assert(UserRef(f.current, follows = true) eq first)
    assert(UserRef(f.current, follows = false) != first)
    f.update(between(0, 50))
    assert(UserRef(f.current, follows = true) != first)
  }

  private lazy val steps = {
    val some = between(0, 900000)
    Seq(between(0, 1000000), bitmap(1).and(some), bitmap(2).and(some))
  }

  // An execution that has ended does not come back.
  private var execution = -10L

  /** Trouble of all kinds: each executor ends with the newest generation, or with an older one where messages are lost. */
  private def onCluster(trouble: Trouble, seed: Long): Unit = {
    val f = filter()
    execution -= 1
    val id = execution
    val ref = UserRef(f.current, follows = true)
    val state = UserState.of(id, ref)
    val source = new FilterSource {
      override def topK(id: Long): Option[TopKSpec] = None
      override def join(id: Long): Option[JoinState] = None
      override def user(e: Long, filterId: Long): Option[UserState] = Option.when(e == id && filterId == ref.id)(state)
    }
    val c = new SimulatedCluster(3, source, trouble, seed)
    def ask(i: Int) = c.nodes(i).executions.open(id).flatMap(_.lateFilter(ref.id))
    ask(0)
    c.settle()
    assert(ask(0).isEmpty)
    val random = new Random(seed)
    steps.foreach { s =>
      f.update(s)
      ask(1)
      (0 until random.nextInt(8)).foreach(_ => c.step())
    }
    ask(2)
    c.settle()
    c.settle()
    assert(state.newest.number == 3)
    (0 until 3).foreach { i =>
      val got = ask(i)
      if (trouble.lost == 0) assert(got.exists(_.implies(steps.last)), s"$seed $i")
      else got.foreach(g => assert(steps.exists(s => g.implies(s) && s.implies(g))))
    }
    c.executions.close(id)
    c.settle()
    assert(c.coordinator.liveExecutions == 0)
    Executions.instance.close(id)
  }

  test("updates reach the executors that asked") {
    (1L to 5L).foreach(onCluster(Trouble(), _))
    (1L to 10L).foreach(onCluster(Trouble(doubled = 0.3, late = 0.5), _))
    (1L to 10L).foreach(onCluster(Trouble(lost = 0.3, doubled = 0.2, late = 0.3), _))
  }

  test("a generation travels by itself") {
    // As executors get it: nothing of the driver is known there.
    val sc = SparkTests.session.sparkContext
    assert(sc.isLocal)
    val f = filter()
    f.update(between(5, 7))
    val copy = JavaCopy(f.current)
    assert(copy eq f.current)
  }
}

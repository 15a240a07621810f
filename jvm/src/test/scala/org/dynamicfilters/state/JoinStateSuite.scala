package org.dynamicfilters.state

import java.util.concurrent.{Executors, TimeUnit}

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.reasons.Reasons
import org.scalatest.concurrent.TimeLimits
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

class JoinStateSuite extends AnyFunSuite with TimeLimits with JoinFilters {
  test("there is no filter before every partition has reported") {
    val s = state
    assert(s.phase == JoinPhase.Registered)
    s.started(2)
    s.offer(0, keys(1, 2), outgrown = false)
    assert(s.phase == JoinPhase.Building(2) && s.current.isEmpty && !s.isSettled)
    s.offer(1, keys(7), outgrown = false)
    assert(s.isSettled)
    assert(Seq(1L, 2L, 7L).forall(passes(s, _)) && !passes(s, 3L))
  }

  test("a partition that reports again replaces what it reported") {
    val s = state
    s.started(2)
    s.offer(0, keys(1), outgrown = false)
    s.offer(0, keys(1), outgrown = false)
    assert(s.current.isEmpty, "one partition was counted as two")
    s.offer(1, keys(5), outgrown = false)
    assert(passes(s, 1L) && passes(s, 5L))
  }

  test("only the first start's keys are wanted") {
    val s = state
    assert(s.started(2) && !s.started(1) && s.phase == JoinPhase.Building(2))
    s.disable(Reasons.QueryEnded)
    assert(!s.started(2))
    val built = state
    assert(built.started(0) && built.current.isDefined && !built.started(1))
  }

  test("what comes before the start is kept") {
    val s = state
    s.offer(0, keys(4), outgrown = false)
    s.started(1)
    assert(passes(s, 4L) && !passes(s, 5L))
  }

  test("a build side without partitions lets nothing pass") {
    val s = state
    s.started(0)
    assert(s.current.contains(ValueFilter.Nothing))
  }

  test("a build side that outgrows the limits lets go whoever waits, and still gives its range") {
    val s = state
    s.started(2)
    s.offer(0, keys(1 to 3000 map (_.toLong): _*), outgrown = true)
    assert(s.isSettled && s.current.isEmpty)
    s.offer(1, keys(5000), outgrown = false)
    assert(passes(s, 4000L) && !passes(s, 5001L) && !passes(s, 0L))
    assert(s.phase.asInstanceOf[JoinPhase.Ready].reduced.isDefined)
  }

  test("what cannot be decoded disables the filter with a reason") {
    val s = state
    s.started(1)
    s.offer(0, Array[Byte](1, 2, 3), outgrown = false)
    assert(s.current.isEmpty)
    assert(s.phase.isInstanceOf[JoinPhase.Disabled])
  }

  test("a filter that was given up stays so; one that is ready stays ready") {
    val dropped = state
    dropped.started(1)
    dropped.disable(Reasons.QueryEnded)
    dropped.offer(0, keys(1), outgrown = false)
    assert(dropped.phase == JoinPhase.Disabled(Reasons.QueryEnded) && dropped.isSettled && dropped.current.isEmpty)
    val ready = state
    ready.started(1)
    ready.offer(0, keys(1), outgrown = false)
    ready.disable(Reasons.QueryEnded)
    assert(ready.current.isDefined)
  }

  test("what a partition reports again, after the filter was built or given up, is not kept") {
    val built = state
    built.started(2)
    built.offer(0, keys(1), outgrown = false)
    built.offer(1, keys(2), outgrown = false)
    built.offer(1, keys(2), outgrown = false)
    assert(built.kept == 2 && passes(built, 1L) && built.kept == 0)
    built.offer(0, keys(1, 9), outgrown = true)
    assert(built.kept == 0 && passes(built, 2L) && !passes(built, 9L))
    val dropped = state
    dropped.started(2)
    dropped.offer(0, keys(1), outgrown = false)
    dropped.disable(Reasons.QueryEnded)
    assert(dropped.kept == 0)
    dropped.offer(1, keys(1), outgrown = false)
    assert(dropped.kept == 0)
  }

  test("nothing is kept of a report that comes while the filter is built") {
    failAfter(60.seconds) {
      val pool = Executors.newSingleThreadExecutor()
      try
        (1 to 2000).foreach { _ =>
          val s = state
          s.started(1)
          s.offer(0, keys(1), outgrown = false)
          val again = pool.submit((() => s.offer(0, keys(1), outgrown = false)): Runnable)
          assert(passes(s, 1L))
          again.get(15, TimeUnit.SECONDS)
          assert(s.kept == 0)
        }
      finally pool.shutdownNow()
    }
  }

  test("filters that are told to follow each other follow the one whose build side runs") {
    for (started <- Seq(None, Some(0), Some(1), Some(2)); late <- Seq(true, false)) failAfter(20.seconds) {
      val all = IndexedSeq.fill(3)(state)
      def start(): Unit = started.foreach(all(_).started(1))
      if (!late) start()
      for (_ <- 1 to 2; i <- all.indices) all(i).follow(all((i + 1) % 3))
      if (late) start()
      started.foreach { i =>
        assert(all(i).hasBegun && all(i).phase == JoinPhase.Building(1))
        all(i).offer(0, keys(9), outgrown = false)
        assert(passes(all(i), 9L) && !passes(all(i), 8L))
        // Those that follow one that follows it, too.
        assert(all.forall(x => x.isSettled && passes(x, 9L)))
      }
      all.foreach(_.disable(Reasons.QueryEnded))
      assert(all.forall(_.isSettled))
    }
  }

  test("a filter that follows another has what that one has, and lets go when that one does") {
    val (first, second) = (state, state)
    second.follow(first)
    first.started(1)
    assert(!second.isSettled && second.current.isEmpty)
    first.offer(0, keys(9), outgrown = false)
    assert(second.isSettled && passes(second, 9L) && !passes(second, 8L))
  }

  test("waiting ends when the filter is ready, is given up, or the time is over") {
    failAfter(20.seconds) {
      val pool = Executors.newSingleThreadExecutor()
      try {
        def waits(s: JoinState, millis: Long)(end: => Unit): Long = {
          val from = System.nanoTime()
          val done = pool.submit((() => s.await(System.nanoTime() + millis * 1000000L)): Runnable)
          end
          done.get(15, TimeUnit.SECONDS)
          (System.nanoTime() - from) / 1000000
        }
        val ready = state
        ready.started(1)
        assert(waits(ready, 10000)(ready.offer(0, keys(1), outgrown = false)) < 5000)
        val dropped = state
        assert(waits(dropped, 10000)(dropped.disable(Reasons.QueryEnded)) < 5000)
        val failed = state
        assert(waits(failed, 10000)(failed.release()) < 5000)
        val never = state
        val took = waits(never, 300)(())
        assert(took >= 290 && never.record.waitedMillis >= 290)
      } finally pool.shutdownNow()
    }
  }

  test("a short wait ends soon after the build side has started, and its filter is waited for a little") {
    failAfter(20.seconds) {
      def waits(s: JoinState, pause: Long = 0)(meanwhile: => Unit): Long = {
        val t = new Thread(() => s.await(System.nanoTime() + 15000 * 1000000L, endsAtStart = true))
        val from = System.nanoTime()
        t.start()
        Thread.sleep(pause)
        meanwhile
        t.join(10000)
        assert(!t.isAlive)
        (System.nanoTime() - from) / 1000000
      }
      val started = state
      assert(waits(started, pause = 200)(started.started(1)) >= 200)
      assert(!started.isSettled)
      val (first, second) = (state, state)
      second.follow(first)
      assert(waits(second, pause = 200)(first.started(1)) >= 200)
      assert(waits(second)(()) < 5000)
      val dropped = state
      waits(dropped, pause = 200)(dropped.disable(Reasons.QueryEnded))
    }
  }

  test("what follows a filter that is given up has the keys of its own build side, if that has started") {
    val (leader, own, none) = (state, state, state)
    leader.started(2)
    own.follow(leader)
    none.follow(leader)
    own.started(1)
    leader.disable(Reasons.QueryEnded)
    assert(own.isSettled && own.current.isEmpty && none.phase == JoinPhase.Disabled(Reasons.QueryEnded))
    own.offer(0, keys(3), outgrown = false)
    assert(passes(own, 3L) && !passes(own, 4L) && none.current.isEmpty)
  }

  test("what follows a filter is given up for itself") {
    val (leader, follower) = (state, state)
    leader.started(1)
    follower.follow(leader)
    follower.disable(Reasons.QueryEnded)
    leader.offer(0, keys(3), outgrown = false)
    assert(passes(leader, 3L) && follower.current.isEmpty)
    assert(follower.phase == JoinPhase.Disabled(Reasons.QueryEnded))
  }

  test("filters never follow each other in a circle, whatever becomes of them") {
    failAfter(20.seconds) {
      val (a, b, c) = (state, state, state)
      a.started(1)
      b.follow(a)
      b.disable(Reasons.QueryEnded)
      a.follow(b)
      c.follow(b)
      a.follow(c)
      a.offer(0, keys(3), outgrown = false)
      // What was given up is not followed any further.
      assert(passes(a, 3L) && !passes(a, 4L) && b.current.isEmpty && c.current.isEmpty && c.isSettled)
    }
  }

  test("a filter with all keys of its own has them, whatever becomes of the one that it follows") {
    val (leader, own, complete) = (state, state, state)
    leader.started(2)
    own.follow(leader)
    own.started(1)
    own.offer(0, keys(3), outgrown = false)
    // The other's second partition never reports.
    leader.buildEnded()
    assert(passes(own, 3L) && !passes(own, 4L) && leader.current.isEmpty)
    complete.started(1)
    complete.offer(0, keys(3), outgrown = false)
    complete.follow(leader)
    assert(!complete.isFollower && passes(complete, 3L))
  }

  test("bytes that tasks send are a small part of what results may have") {
    val results = 1L << 30
    assert(KeyContribution.budget(results, broadcast = false, filters = 1) == (64 << 20))
    assert(KeyContribution.budget(results, broadcast = true, filters = 1) == (8 << 20))
    assert(KeyContribution.budget(results, broadcast = true, filters = 4) == (2 << 20))
    assert(KeyContribution.budget(0, broadcast = true, filters = 4) == Long.MaxValue)
  }
}

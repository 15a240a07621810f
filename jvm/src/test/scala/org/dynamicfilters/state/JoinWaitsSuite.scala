package org.dynamicfilters.state

import org.scalatest.concurrent.TimeLimits
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

class JoinWaitsSuite extends AnyFunSuite with TimeLimits with JoinFilters {
  test("nothing waits on a thread that does not submit a shuffle") {
    failAfter(5.seconds)(assert(!JoinWaits.await(987654, Seq(JoinWait(ref("a"), 10000L)))))
  }

  test("whoever waits when the query ends learns that it ended") {
    failAfter(20.seconds) {
      val id = 987655L
      val r = ref("a")
      @volatile var hasEnded = false
      val t = new Thread(() => hasEnded = JoinWaits.await(id, Seq(JoinWait(r, 15000L))), "shuffle-exchange-test")
      t.start()
      Thread.sleep(200)
      Executions.instance.close(id)
      t.join(10000)
      assert(hasEnded && JoinWaits.waitingNow == 0)
    }
  }

  test("scans below one exchange are held back no longer than one of them, and a tenth of a broadcast's time") {
    failAfter(60.seconds) {
      val ids = Iterator.from(987600)
      def seconds(name: String, scans: Int, inBroadcast: Long): Double = {
        val id = ids.next().toLong
        val refs = (1 to scans).map(_ => ref("a"))
        @volatile var took = 0L
        val work: Runnable = () => {
          val from = System.nanoTime()
          val ended = refs.map(r => JoinWaits.await(id, Seq(JoinWait(r, 1000L)), inBroadcast = inBroadcast))
          if (!ended.contains(true)) took = System.nanoTime() - from
        }
        val t = new Thread(work, name)
        t.start()
        t.join(15000)
        Executions.instance.close(id)
        assert(!t.isAlive && took > 0)
        took / 1e9
      }
      // A thread that does not run for 10 ms begins to wait anew: on a busy machine not every time is as short.
      def shortest(name: String, least: Double, less: Double): Unit = {
        val times = Iterator.continually(seconds(name, 4, 100L)).take(10).tapEach(t => assert(t >= least, name))
        assert(times.exists(_ < less), name)
      }
      shortest("shuffle-exchange-test", 0.9, 2)
      shortest("broadcast-exchange-test", 0.09, 0.2)
    }
  }

  test("an equal build side that has started, or starts, serves whoever waits") {
    failAfter(20.seconds) {
      val id = 987656L
      def waits(r: JoinRef)(meanwhile: => Unit): Unit = {
        JoinWaits.scanStarted(id, Seq(r))
        val t = new Thread(() => JoinWaits.await(id, Seq(JoinWait(r, 15000L))), "shuffle-exchange-test")
        t.start()
        Thread.sleep(200)
        meanwhile
        t.join(10000)
        assert(!t.isAlive && passes(r.state, 3L) && !passes(r.state, 4L))
      }
      def start(r: JoinRef): Unit = {
        JoinWaits.buildStarted(id, r)
        r.state.started(1)
        r.state.offer(0, keys(3), outgrown = false)
      }
      waits(ref("a"))(start(ref("a")))
      waits(ref("a"))(())
      val other = ref("a")
      start(ref("b"))
      assert(!other.state.isSettled)
      Executions.instance.close(id)
    }
  }

  test("an equal build side serves scans that do not wait, whichever of the two starts first") {
    val id = 987657L
    val (before, after, no) = (ref("a"), ref("a"), ref("b"))
    JoinWaits.scanStarted(id, Seq(before, no))
    val build = ref("a")
    JoinWaits.buildStarted(id, build)
    JoinWaits.scanStarted(id, Seq(after))
    build.state.started(1)
    assert(!before.state.isSettled && !after.state.isSettled)
    build.state.offer(0, keys(3), outgrown = false)
    for (r <- Seq(before, after)) assert(passes(r.state, 3L) && !passes(r.state, 4L))
    assert(!no.state.isSettled && !no.state.isFollower)
    Executions.instance.close(id)
  }
}

package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.reasons.Reasons

/** A scan's wait for a filter.
  *
  * @param millis the longest time
  * @param endsAtStart whether the wait also ends once the build side's job is submitted
  */
final case class JoinWait(ref: JoinRef, millis: Long, endsAtStart: Boolean = false)

/** Holds scans back until a filter settles: it is complete, or waiting for it longer is of no use. */
private[state] final class FilterLatch {
  // Upper limit for the time between the tap's `doExecute` and the submission of its job.
  private final val SubmissionNanos = 10L * 1000 * 1000
  // Time between two calls of `look`.
  private final val LookNanos = 50L * 1000 * 1000
  private val begun, settled = new CountDownLatch(1)
  private val listeners = new ConcurrentLinkedQueue[() => Unit]()

  /** Whether the build side's job has been submitted, or never will be. */
  def hasBegun: Boolean = begun.getCount == 0
  def begin(): Unit = begun.countDown()

  def isSettled: Boolean = settled.getCount == 0
  def settle(): Unit = {
    begun.countDown()
    settled.countDown()
    listeners.forEach(_())
  }

  /** Calls `f` each time the filter settles, and at least once after that. `f` must be short and not fail: Spark's
    * scheduler may call it.
    */
  def onSettled(f: () => Unit): Unit = {
    listeners.add(f)
    if (isSettled) f()
  }

  /** Blocks until the filter settles, or the time is over.
    *
    * @param deadline as `System.nanoTime`
    * @param endsAtStart whether the time is also over once the build side's job is submitted
    * @param look called periodically until the build side starts, says whether to wait on: it may find that the build
    *   side will never start. It must be short and not fail
    * @return the waited milliseconds
    */
  def await(deadline: Long, endsAtStart: Boolean, look: () => Boolean): Long = {
    val from = System.nanoTime()
    var goesOn = true
    while (
      goesOn && !begun.await(math.min(LookNanos, deadline - System.nanoTime()), TimeUnit.NANOSECONDS) &&
      System.nanoTime() < deadline
    ) goesOn = look()
    val until =
      if (!goesOn) from
      else if (endsAtStart && hasBegun) math.min(deadline, System.nanoTime() + SubmissionNanos)
      else deadline
    settled.await(math.max(0L, until - System.nanoTime()), TimeUnit.NANOSECONDS)
    (System.nanoTime() - from) / 1000000
  }
}

/** Holds probe stages back on the driver until their filters are ready (contract 7).
  *
  * A scan waits in `prepare`, as Spark does for subqueries, on one of the many threads that submit exchanges. No task
  * slot is held, and the adaptive loop goes on. Other threads never wait, because the build side may need them.
  */
object JoinWaits extends Logging {

  /** A thread pool that submits exchanges (`executionContext` of `ShuffleExchangeExec` and `BroadcastExchangeExec`).
    *
    * @param name prefix of its threads' names
    * @param size the setting for the number of threads, and its default
    * @param threadsEach threads that one exchange takes
    */
  private final case class Pool(name: String, size: (String, Int), threadsEach: Int) {
    val waiting = new AtomicInteger

    /** Number of threads that may wait: a quarter, so that build sides can always be submitted. */
    def mostWaiting: Int = configured(size._1, size._2) / (4 * threadsEach)
  }

  private val shuffles =
    Pool("shuffle-exchange", "spark.sql.shuffleExchange.maxThreadThreshold" -> 1024, threadsEach = 1)
  private val broadcasts =
    Pool("broadcast-exchange", "spark.sql.broadcastExchange.maxThreadThreshold" -> 128, threadsEach = 2)
  private val pools = Seq(shuffles, broadcasts)

  /** The filters of one execution: those of started scans, those that scans wait for, those of started build sides. */
  private final class Waits extends AutoCloseable {
    val scanned, waiting = new ConcurrentHashMap[Long, JoinRef]()
    val started = new ConcurrentHashMap[JoinRef, JoinRef]()
    @volatile var ended = false
    private val held = new ConcurrentHashMap[Thread, Held]()

    /** When this thread began to hold its stage back. Spark prepares the scans below one exchange one after the other,
      * and all of them together wait no longer than one may.
      */
    def heldSince(): Long = {
      val now = System.nanoTime()
      Option(held.get(Thread.currentThread)).filter(now - _.until < SameStageNanos).fold(now)(_.since)
    }

    def heldUntilNow(since: Long): Unit = held.put(Thread.currentThread, Held(since, System.nanoTime()))

    /** The execution ended: ends all waits. */
    override def close(): Unit = {
      ended = true
      waiting.values.asScala.foreach(_.state.disable(Reasons.QueryEnded))
    }
  }

  private object Waits

  /** As `System.nanoTime`. */
  private final case class Held(since: Long, until: Long)

  /** Upper limit for the time between two waits below the same exchange. Before the thread gets another exchange, a
    * stage has run.
    */
  private val SameStageNanos = TimeUnit.MILLISECONDS.toNanos(10)

  private def waitsOf(executionId: Long): Option[Waits] = Executions.instance.attach(executionId, Waits)(new Waits)

  private def pool: Option[Pool] = pools.find(p => Thread.currentThread.getName.startsWith(p.name))

  /** Whether this thread submits an exchange. */
  def isSubmitting: Boolean = pool.isDefined

  /** Waits for filters, one after the other.
    *
    * @param look called periodically with a filter whose build side has not started; see [[FilterLatch.await]]
    * @param inBroadcast the longest wait below a broadcast in milliseconds; it counts towards Spark's broadcast timeout
    * @return whether the query ended meanwhile: its stage must not be submitted, unless other queries need it too
    */
  def await(
      executionId: Long,
      waits: Seq[JoinWait],
      look: JoinRef => Boolean = _ => true,
      inBroadcast: Long = Long.MaxValue
  ): Boolean = pool.exists { pool =>
    try
      pool.waiting.incrementAndGet() <= pool.mostWaiting &&
        wait(executionId, waits, look, if (pool eq broadcasts) inBroadcast else Long.MaxValue)
    finally pool.waiting.decrementAndGet()
  }

  // The stage of an ended execution goes on: threads inherit its id, and the scan may fill a cached table for others.
  private def wait(executionId: Long, wanted: Seq[JoinWait], look: JoinRef => Boolean, atMost: Long): Boolean =
    waitsOf(executionId).exists { waits =>
      val from = waits.heldSince()
      wanted.foreach { w =>
        waits.waiting.put(w.ref.id, w.ref)
        val deadline = from + TimeUnit.MILLISECONDS.toNanos(Seq(w.millis, atMost, Longest).min)
        if (!waits.ended) w.ref.state.await(deadline, w.endsAtStart, () => look(w.ref))
      }
      waits.heldUntilNow(from)
      waits.ended
    }

  // From SparkConf, because these settings are static.
  private def configured(key: String, default: Int): Int =
    Option(SparkEnv.get).flatMap(_.conf.getOption(key)).flatMap(_.trim.toIntOption).getOrElse(default)

  /** A day, so that sums of nanoseconds do not overflow. */
  private val Longest = TimeUnit.DAYS.toMillis(1)

  /** A scan with these filters starts. If an equal build side has started, its filter is followed.
    *
    * Main query and subqueries are planned separately, and share exchanges: the tap that runs may be that of an equal
    * build side with another filter.
    */
  def scanStarted(executionId: Long, refs: Seq[JoinRef]): Unit = guarded {
    if (refs.nonEmpty) waitsOf(executionId).foreach { waits =>
      refs.foreach { ref =>
        // Before the look at `started`, as buildStarted does in reverse: one of the two sees the other.
        waits.scanned.put(ref.id, ref)
        Option(waits.started.get(ref)).foreach(follow(ref, _))
      }
    }
  }

  /** A build side starts to collect keys. */
  def buildStarted(executionId: Long, ref: JoinRef): Unit = guarded {
    waitsOf(executionId).foreach { waits =>
      val first = waits.started.computeIfAbsent(ref, r => r)
      waits.scanned.values.asScala.filter(_ == first).foreach(follow(_, first))
    }
  }

  // Comparing filters compares plans, which may fail. The query must go on.
  private def guarded(f: => Unit): Unit =
    try f
    catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: equal build sides are not looked for", e)
    }

  private def follow(ref: JoinRef, other: JoinRef): Unit =
    if ((ref ne other) && !other.state.isDisabled) ref.state.follow(other.state)

  /** A job of the execution failed, and with it perhaps a build side: releases all waits. */
  def jobFailed(executionId: Long): Unit =
    Executions.instance.find[Waits](executionId, Waits).foreach(_.waiting.values.asScala.foreach(_.state.release()))

  /** Number of waiting threads, for tests. */
  def waitingNow: Int = pools.map(_.waiting.get).sum
}

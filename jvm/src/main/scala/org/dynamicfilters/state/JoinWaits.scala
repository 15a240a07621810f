package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.OwnFailure

/** How long a scan is held back for a filter.
  *
  * @param millis
  *   from the start of the wait, at most
  * @param endsAtStart
  *   whether that is over when the job of the build side has been submitted
  */
final case class JoinWait(ref: JoinRef, millis: Long, endsAtStart: Boolean = false)

/** Probe stages that are held back on the driver until their filters are ready.
  *
  * Waiting happens where Spark itself waits for subqueries: in `prepare`, on the thread that submits the stage's shuffle, of
  * which there are many. No task slot is held, and the adaptive loop goes on. On any other thread nothing waits: it could be
  * the very thread that has to submit the build side.
  */
object JoinWaits extends Logging {

  /** Threads that submit one exchange each (`ShuffleExchangeExec` and `BroadcastExchangeExec.executionContext`, Spark 4.1 on).
    *
    * @param name
    *   with which the names of its threads begin
    * @param size
    *   the setting that says how many there are, and its default
    * @param ofOne
    *   how many threads one exchange takes
    */
  private final case class Pool(name: String, size: (String, Int), ofOne: Int) {
    val waiting = new AtomicInteger

    /** How many of its threads may wait: a quarter at most. Waiting ones must not keep a build side from being submitted. */
    def most(sizeOf: (String, Int) => Int): Int = sizeOf(size._1, size._2) / (4 * ofOne)
  }

  private val shuffles = Pool("shuffle-exchange", "spark.sql.shuffleExchange.maxThreadThreshold" -> 1024, ofOne = 1)
  private val broadcasts =
    Pool("broadcast-exchange", "spark.sql.broadcastExchange.maxThreadThreshold" -> 128, ofOne = 2)
  private val pools = Seq(shuffles, broadcasts)

  /** Filters of an execution's scans that have started, those that scans wait for, and the build sides that have started. */
  private final class Waits extends AutoCloseable {
    val scanned, waiting = new ConcurrentHashMap[Long, JoinRef]()
    val started = new ConcurrentHashMap[JoinRef, JoinRef]()
    @volatile var ended = false
    private val held = new ConcurrentHashMap[Thread, Held]()

    /** When this thread began to hold its stage back: scans below one exchange are prepared one right after the other, and
      * all of them together wait no longer than one may.
      */
    def heldSince(): Long = {
      val now = System.nanoTime()
      Option(held.get(Thread.currentThread)).filter(now - _.until < SameStageNanos).fold(now)(_.since)
    }

    def heldUntilNow(since: Long): Unit = held.put(Thread.currentThread, Held(since, System.nanoTime()))

    /** The execution ended. Whoever still waits stops, and learns why. */
    override def close(): Unit = {
      ended = true
      waiting.values.asScala.foreach(_.state.disable("the query ended"))
    }
  }

  private object Waits

  /** As `System.nanoTime`. */
  private final case class Held(since: Long, until: Long)

  /** From the wait of one scan to that of the next below the same exchange. Another exchange may come to the same thread, but
    * not before a stage has run in between.
    */
  private val SameStageNanos = TimeUnit.MILLISECONDS.toNanos(10)

  private def waitsOf(executionId: Long): Option[Waits] = Executions.instance.attach(executionId, Waits)(new Waits)

  /** What became of a wait. */
  sealed trait Outcome
  object Outcome {
    case object NotAllowedHere extends Outcome
    case object TooManyWaiting extends Outcome
    case object Over extends Outcome

    /** The query ended meanwhile; nothing must be submitted for it, unless it is others' too. */
    case object QueryEnded extends Outcome
  }

  private def pool: Option[Pool] = pools.find(p => Thread.currentThread.getName.startsWith(p.name))

  /** Whether this thread is one of those pools', and submits an exchange. */
  def isSubmitting: Boolean = pool.isDefined

  /** Waits for filters, one after the other.
    *
    * @param look
    *   called now and then with a filter whose build side has not begun; see [[JoinState.await]]
    * @param inBroadcast
    *   the longest wait below a broadcast, in milliseconds: it is a part of the time that Spark gives a broadcast
    */
  def await(
      executionId: Long,
      waits: Seq[JoinWait],
      look: JoinRef => Boolean = _ => true,
      inBroadcast: Long = Long.MaxValue
  ): Outcome =
    pool match {
      case None => Outcome.NotAllowedHere
      case Some(pool) =>
        try
          if (pool.waiting.incrementAndGet() > pool.most(configured)) Outcome.TooManyWaiting
          else wait(executionId, waits, look, if (pool eq broadcasts) inBroadcast else Long.MaxValue)
        finally pool.waiting.decrementAndGet()
    }

  private def wait(executionId: Long, wanted: Seq[JoinWait], look: JoinRef => Boolean, atMost: Long): Outcome =
    waitsOf(executionId) match {
      // Its id says nothing of whose scan this is: threads inherit it, and what fills a cached table goes on with it.
      case None => Outcome.Over
      case Some(waits) =>
        val from = waits.heldSince()
        wanted.foreach { w =>
          waits.waiting.put(w.ref.id, w.ref)
          val deadline = from + TimeUnit.MILLISECONDS.toNanos(Seq(w.millis, atMost, Longest).min)
          if (!waits.ended) w.ref.state.await(deadline, w.endsAtStart, () => look(w.ref))
        }
        waits.heldUntilNow(from)
        if (waits.ended) Outcome.QueryEnded else Outcome.Over
    }

  // Static settings: those that the pools were made with.
  private def configured(key: String, default: Int): Int =
    Option(SparkEnv.get).flatMap(_.conf.getOption(key)).flatMap(_.trim.toIntOption).getOrElse(default)

  /** A day: more does not fit into the clock's nanoseconds. */
  private val Longest = TimeUnit.DAYS.toMillis(1)

  /** A scan starts that has these filters, whether or not it will wait for them.
    *
    * Main query and subqueries are planned apart, and share exchanges: the tap that runs may be that of an equal build side,
    * with a filter of its own, which nobody plans again once the scan has started.
    */
  def scanStarted(executionId: Long, refs: Seq[JoinRef]): Unit = guarded {
    if (refs.nonEmpty) waitsOf(executionId).foreach { waits =>
      refs.foreach { ref =>
        // Noted first: of two that start side by side one sees the other.
        waits.scanned.put(ref.id, ref)
        Option(waits.started.get(ref)).foreach(follow(executionId, ref, _))
      }
    }
  }

  /** A build side starts to collect keys. */
  def buildStarted(executionId: Long, ref: JoinRef): Unit = guarded {
    waitsOf(executionId).foreach { waits =>
      val first = waits.started.computeIfAbsent(ref, r => r)
      waits.scanned.values.asScala.filter(_ == first).foreach(follow(executionId, _, first))
    }
  }

  // Filters are told apart by their plans, and whatever these do, the query goes on.
  private def guarded(f: => Unit): Unit =
    try f
    catch {
      case OwnFailure(e) =>
        logWarning("Dynamic filters: equal build sides are not looked for", e)
    }

  // Announced, because its own tap, which would do that, may never run, and its scan may run already.
  private def follow(executionId: Long, ref: JoinRef, other: JoinRef): Unit = if (
    (ref ne other) && !other.state.isDisabled
  ) {
    ref.state.follow(other.state)
    Executions.instance.open(executionId).foreach(_.announce(ref.state))
  }

  /** A job of the execution failed: what it was to build will not come. */
  def jobFailed(executionId: Long): Unit =
    Executions.instance.find[Waits](executionId, Waits).foreach(_.waiting.values.asScala.foreach(_.state.release()))

  /** Threads that wait now; for tests. */
  def waitingNow: Int = pools.map(_.waiting.get).sum
}

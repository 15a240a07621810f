package org.dynamicfilters.exchange

import java.util.concurrent.{RejectedExecutionException, ScheduledThreadPoolExecutor, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** One daemon thread that does what must not be done on the threads of tasks, of the scheduler and of Spark's RPC. It ends
  * when there is nothing to do for a while.
  *
  * @param name
  *   of the thread; starts with [[Worker.Prefix]], so that tests find it
  * @param capacity
  *   how much work may wait
  * @param mostBytes
  *   of messages that wait with it
  */
final class Worker(name: String, capacity: Int, counters: ExchangeCounters, mostBytes: Long = Long.MaxValue)
    extends Schedule
    with Logging {
  private val waiting = new AtomicInteger
  private val waitingBytes = new AtomicLong
  private val pool = new ScheduledThreadPoolExecutor(
    1,
    (work: Runnable) => {
      val t = new Thread(work, Worker.Prefix + name)
      t.setDaemon(true)
      t
    }
  )
  pool.setKeepAliveTime(Worker.IdleSeconds, TimeUnit.SECONDS)
  pool.allowCoreThreadTimeOut(true)
  pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(false)
  pool.setRemoveOnCancelPolicy(true)

  /** False if too much is waiting already, or the worker was stopped. */
  override def later(millis: Long)(work: => Unit): Boolean = later(millis, 0)(work)

  /** @param bytes
    *   of a message that waits with the work
    */
  def later(millis: Long, bytes: Int)(work: => Unit): Boolean = {
    def left(): Unit = {
      waiting.decrementAndGet()
      waitingBytes.addAndGet(-bytes.toLong)
    }
    val (works, held) = (waiting.incrementAndGet(), waitingBytes.addAndGet(bytes.toLong))
    if (works > capacity || held > mostBytes) {
      left()
      counters.add(ExchangeCounter.droppedOverload)
      false
    } else
      try {
        pool.schedule((() => { left(); run(work) }): Runnable, millis, TimeUnit.MILLISECONDS)
        true
      } catch {
        case _: RejectedExecutionException =>
          left()
          false
      }
  }

  private def run(work: => Unit): Unit =
    try work
    catch {
      case NonFatal(e) =>
        counters.add(ExchangeCounter.failures)
        logWarning("Dynamic filters: an exchange between executors failed, rows pass", e)
    }

  /** What waits is not done any more. */
  def stop(): Unit = pool.shutdownNow()
}

object Worker {
  val Prefix = "dynamic-filters-"
  private val IdleSeconds = 10L
}

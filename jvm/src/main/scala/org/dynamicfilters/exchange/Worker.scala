package org.dynamicfilters.exchange

import java.util.concurrent.{RejectedExecutionException, ScheduledThreadPoolExecutor, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** One daemon thread that does what must not be done on the threads of tasks, of the scheduler and of Spark's RPC. It ends
  * when there is nothing to do for a while.
  *
  * @param name
  *   of the thread; starts with [[Worker.Prefix]], so that tests find it
  * @param capacity
  *   how much work may wait
  */
final class Worker(name: String, capacity: Int, counters: ExchangeCounters) extends Schedule with Logging {
  private val waiting = new AtomicInteger
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
  override def later(millis: Long)(work: => Unit): Boolean =
    if (waiting.incrementAndGet() > capacity) {
      waiting.decrementAndGet()
      counters.add(ExchangeCounter.droppedOverload)
      false
    } else
      try {
        pool.schedule((() => run(work)): Runnable, millis, TimeUnit.MILLISECONDS)
        true
      } catch {
        case _: RejectedExecutionException =>
          waiting.decrementAndGet()
          false
      }

  private def run(work: => Unit): Unit = {
    waiting.decrementAndGet()
    try work
    catch {
      case NonFatal(e) =>
        counters.add(ExchangeCounter.failures)
        logWarning("Dynamic filters: an exchange between executors failed, rows pass", e)
    }
  }

  /** What waits is not done any more. */
  def stop(): Unit = pool.shutdownNow()
}

object Worker {
  val Prefix = "dynamic-filters-"
  private val IdleSeconds = 10L
}

package org.dynamicfilters.exchange

import java.util.concurrent.{RejectedExecutionException, ScheduledThreadPoolExecutor, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** Does work later, one piece after the other. */
trait Schedule {

  /** @return false if the work will not be done */
  def later(millis: Long)(work: => Unit): Boolean
}

/** One daemon thread for work that would block threads of tasks, of Spark's scheduler or of Spark's RPC. The thread
  * ends after ten idle seconds.
  *
  * @param name name of the thread, after [[Worker.Prefix]]
  * @param capacity largest number of pieces of work that wait
  * @param maxBytes limit for the messages that wait
  */
final class Worker(name: String, capacity: Int, counters: ExchangeCounters, maxBytes: Long = Long.MaxValue)
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

  /** Returns false if too much waits already, or the worker was stopped. */
  override def later(millis: Long)(work: => Unit): Boolean = later(millis, 0)(work)

  /** @param bytes bytes of the message that waits with the work */
  def later(millis: Long, bytes: Int)(work: => Unit): Boolean = {
    def release(): Unit = {
      waiting.decrementAndGet()
      waitingBytes.addAndGet(-bytes.toLong)
    }
    val (works, held) = (waiting.incrementAndGet(), waitingBytes.addAndGet(bytes.toLong))
    if (works > capacity || held > maxBytes) {
      release()
      counters.add(ExchangeCounter.droppedOverload)
      false
    } else
      try {
        pool.schedule((() => { release(); run(work) }): Runnable, millis, TimeUnit.MILLISECONDS)
        true
      } catch {
        case _: RejectedExecutionException =>
          release()
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

  /** Drops the work that waits. */
  def stop(): Unit = pool.shutdownNow()
}

object Worker {
  val Prefix = "dynamic-filters-"
  private val IdleSeconds = 10L
}

package org.dynamicfilters.exchange

import java.util.concurrent.atomic.AtomicBoolean

/** Limits how often, and how much, a process sends for one filter. Thread-safe.
  *
  * @param clock nanoseconds
  */
private[exchange] final class ExchangePace(schedule: Schedule, clock: () => Long) {
  import ExchangePace._

  private val isScheduled = new AtomicBoolean
  @volatile private var notBefore = clock()

  /** Sends as soon as the pace allows. Several calls before that send once.
    *
    * @param send returns the length of its message to one receiver
    */
  def soon(send: => Long): Unit = if (!isScheduled.get && isScheduled.compareAndSet(false, true)) {
    val wait = math.max(0L, (notBefore - clock()) / 1000000)
    val will = schedule.later(wait) {
      // Before the send, so that news that come meanwhile are scheduled again.
      isScheduled.set(false)
      val bytes = send
      notBefore = clock() + math.max(EveryMillis, bytes * 1000 / BytesPerSecond) * 1000000
    }
    if (!will) isScheduled.set(false)
  }
}

private object ExchangePace {

  /** Least time between two messages to the same receiver. In local-cluster a message takes about a millisecond, and
    * reading a row group far more than 20.
    */
  private val EveryMillis = 20L

  /** For one filter, to one receiver. A TopK with a large limit sends many keys, a join's filter may have MiBs. */
  private val BytesPerSecond = 4L << 20
}

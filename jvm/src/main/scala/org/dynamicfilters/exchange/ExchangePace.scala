package org.dynamicfilters.exchange

/** Limits what a process sends for one filter.
  *
  * @param everyMillis
  *   least time between two messages to the same receiver. In local-cluster a message takes about a millisecond, and reading a
  *   row group far more than 20
  * @param bytesPerSecond
  *   from one executor: a TopK with a large limit sends many keys
  * @param fanOutBytes
  *   of one filter to all executors together. A larger join filter is reduced to its range
  */
final case class ExchangePace(everyMillis: Long = 20, bytesPerSecond: Long = 4L << 20, fanOutBytes: Long = 1L << 30) {

  /** Milliseconds to pause after so many bytes. */
  def pause(bytes: Long): Long = math.max(everyMillis, bytes * 1000 / bytesPerSecond)

  /** Milliseconds to pause after a push to so many receivers, so that the driver's work per second has a limit. */
  def pauseAfterPush(receivers: Int): Long = everyMillis * math.max(1, receivers / ReceiversAtFullPace)

  // `make bench-coordinator`: telling 1,000 executors every 20 ms took 8 to 12 % of a core.
  private final val ReceiversAtFullPace = 200
}

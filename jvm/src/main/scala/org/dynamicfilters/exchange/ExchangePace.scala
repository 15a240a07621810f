package org.dynamicfilters.exchange

/** How often and how much a process sends of one filter.
  *
  * @param everyMillis
  *   between two messages of a filter to the same receiver. Measured in local-cluster, a message takes about a millisecond, and a
  *   row group far more than 20
  * @param bytesPerSecond
  *   of one filter's messages from one executor: a TopK with a large limit sends many keys
  * @param fanOutBytes
  *   of one join filter to all executors together; what is larger is reduced to its range
  */
final case class ExchangePace(everyMillis: Long = 20, bytesPerSecond: Long = 4L << 20, fanOutBytes: Long = 1L << 30) {

  /** How long to wait after so many bytes. */
  def pause(bytes: Long): Long = math.max(everyMillis, bytes * 1000 / bytesPerSecond)

  /** How long to wait after telling so many receivers of a bound: what the driver does in a second does not grow with them. */
  def pauseAfterPush(receivers: Int): Long = everyMillis * math.max(1, receivers / ExchangePace.ReceiversAtFullPace)
}

object ExchangePace {

  /** Measured by `make bench-coordinator`: to tell 1,000 executors every 20 ms took 8 to 12 % of a core. */
  private val ReceiversAtFullPace = 200
}

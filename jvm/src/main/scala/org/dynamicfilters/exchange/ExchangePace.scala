package org.dynamicfilters.exchange

/** Limits what a process sends for one filter. */
private[exchange] object ExchangePace {

  /** Least time between two messages to the same receiver. In local-cluster a message takes about a millisecond, and reading a row
    * group far more than 20.
    */
  val EveryMillis = 20L

  /** From one executor: a TopK with a large limit sends many keys. */
  private val BytesPerSecond = 4L << 20

  /** Milliseconds to pause after so many bytes. */
  def pause(bytes: Long): Long = math.max(EveryMillis, bytes * 1000 / BytesPerSecond)
}

package org.dynamicfilters.exchange

/** Limits what a process sends for one filter.
  *
  * @param everyMillis least time between two messages to the same receiver. In local-cluster a message takes about a
  *   millisecond, and reading a row group far more than 20
  * @param bytesPerSecond from one executor: a TopK with a large limit sends many keys
  */
final case class ExchangePace(everyMillis: Long = 20, bytesPerSecond: Long = 4L << 20) {

  /** Milliseconds to pause after so many bytes. */
  def pause(bytes: Long): Long = math.max(everyMillis, bytes * 1000 / bytesPerSecond)
}

package org.dynamicfilters.exchange

import org.dynamicfilters.exchange.ExchangeCounter._

/** Sends the driver's messages to executors, and counts them.
  *
  * @param sendTo sends a message to the executor that registered under a name, without waiting for an answer. Returns
  *   false if there is no such executor, or the message could not be sent
  * @param clock nanoseconds
  */
final class Outbox(sendTo: (String, Array[Byte]) => Boolean, val counters: ExchangeCounters, val clock: () => Long) {
  def send(peer: String, message: Array[Byte]): Unit =
    if (sendTo(peer, message)) counters.addSent(message) else counters.add(sendFailed)
}

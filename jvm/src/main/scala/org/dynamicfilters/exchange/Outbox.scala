package org.dynamicfilters.exchange

import org.apache.spark.broadcast.Broadcast
import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.state.FilterName

/** A message, and the broadcast that goes beside it if a filter is too large for a message. */
final case class Outgoing(message: Array[Byte], broadcast: Option[Broadcast[Array[Byte]]] = None)

/** The executors, by the names under which they registered. */
trait Peers {

  /** Sends a message without waiting for an answer.
    *
    * @return false if there is no such executor, or the message could not be sent
    */
  def send(peer: String, m: Outgoing): Boolean

  /** Broadcasts a filter, see [[FilterBroadcasts]]. */
  def broadcast(encoded: Array[Byte], execution: Option[Long], ofPlan: Boolean): Broadcast[Array[Byte]]
}

/** Sends the driver's messages to executors, and counts them.
  *
  * @param clock nanoseconds
  */
final class Outbox(peers: Peers, val counters: ExchangeCounters, val clock: () => Long) {

  // Larger filters go as a Spark broadcast, which executors also fetch from each other.
  private final val InlineBytes = 1 << 20

  def send(peer: String, m: Outgoing): Unit =
    if (peers.send(peer, m)) {
      counters.add(sent)
      counters.add(sentBytes, m.message.length.toLong)
    } else counters.add(sendFailed)

  /** The contents of a filter.
    *
    * @param ofPlan whether it belongs to a plan, or else to the running scans of an execution
    */
  def contents(execution: Option[Long], name: FilterName, encoded: Array[Byte], ofPlan: Boolean): Outgoing = {
    def message(inline: Option[Array[Byte]]) =
      MessageCodec.contents(execution.getOrElse(MessageCodec.NoExecution), name, inline).toByteArray
    if (encoded.length <= InlineBytes) Outgoing(message(Some(encoded)))
    else {
      counters.add(broadcasts)
      Outgoing(message(None), Some(peers.broadcast(encoded, execution, ofPlan)))
    }
  }
}

package org.dynamicfilters.exchange

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.state.FilterName

/** A filter that is too large for a message: broadcast once, and fetched by all receivers. */
trait Payload {

  /** Drops the broadcast. Executors that have not fetched it go on without the filter. */
  def release(): Unit
}

/** A message, and the broadcast that goes beside it. */
final case class Outgoing(message: Array[Byte], payload: Option[Payload] = None)

/** The executors, by the names under which they registered. */
trait Peers {

  /** Sends a message without waiting for an answer.
    *
    * @return
    *   false if there is no such executor, or the message could not be sent
    */
  def send(peer: String, m: Outgoing): Boolean

  /** Broadcasts a filter for the running scans of an execution. The caller releases it. */
  def payload(encoded: Array[Byte]): Payload

  /** Broadcasts a filter for the tasks of a plan, which may be executed again: Spark drops it with the plan.
    *
    * @param execution
    *   executors drop their copies when this execution ends; None where there is none
    */
  def planPayload(encoded: Array[Byte], execution: Option[Long]): Payload
}

/** Sends the driver's messages to executors, and counts them.
  *
  * @param clock
  *   nanoseconds
  */
final class Outbox(peers: Peers, val pace: ExchangePace, val counters: ExchangeCounters, val clock: () => Long) {

  // Larger filters go as a Spark broadcast, which executors also fetch from each other.
  private final val InlineBytes = 1 << 20

  def send(peer: String, m: Outgoing): Unit =
    if (peers.send(peer, m)) {
      counters.add(sent)
      counters.add(sentBytes, m.message.length.toLong)
    } else counters.add(sendFailed)

  /** The contents of a filter for the running scans of an execution. */
  def liveFilter(executionId: Long, name: FilterName, encoded: Array[Byte]): Outgoing =
    contents(executionId, name, encoded)(peers.payload)

  /** The answer to a [[Message.FilterRequest]]. */
  def requestedFilter(request: Message.FilterRequest, encoded: Array[Byte]): Outgoing =
    contents(request.executionId, request.filter, encoded)(peers.planPayload(_, request.execution))

  private def contents(executionId: Long, name: FilterName, encoded: Array[Byte])(
      broadcast: Array[Byte] => Payload
  ): Outgoing = {
    def message(inline: Option[Array[Byte]]) =
      MessageCodec.encode(Message.FilterContents(executionId, name, inline))
    if (encoded.length <= InlineBytes) Outgoing(message(Some(encoded)))
    else {
      counters.add(broadcasts)
      Outgoing(message(None), Some(broadcast(encoded)))
    }
  }
}

package org.dynamicfilters.exchange

import scala.collection.mutable

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.{FilterName, JoinPhase, JoinState, NamedFilter}

/** A join's filter for executors whose scans run already, in one execution. Guarded by the coordinator's lock.
  *
  * Sent once to each that asked, when it is complete; not at all where nobody reads any more.
  */
private[exchange] final class LiveJoin(
    executionId: Long,
    state: JoinState,
    peers: Peers,
    pace: ExchangePace,
    counters: ExchangeCounters
) {

  /** All who ever asked, and those of them who have not got it. */
  private val subscribers = mutable.LinkedHashSet.empty[String]
  private val waiting = mutable.LinkedHashSet.empty[String]
  // Made once, when there is something to send.
  private var message: Option[(Array[Byte], Option[Payload])] = None

  def subscribe(peer: String): Unit = {
    subscribers += peer
    waiting += peer
    if (state.isSettled) settled()
  }

  def peersServed: Iterable[String] = subscribers

  def forget(peer: String): Unit = {
    subscribers -= peer
    waiting -= peer
  }

  /** Whoever asked gets what there is. A state may settle before its filter is complete: then they go on waiting. */
  def settled(): Unit = state.phase match {
    case JoinPhase.Ready(_, bytes, _, _) =>
      if (state.scansEnded) withhold(withheldLate, Reasons.TooLate)
      else {
        if (message.isEmpty) message = state.named.map(encoded(_, bytes))
        message.foreach { case (m, payload) => serve(m, payload) }
      }
    // It follows one that is given up, and its own build side may run yet.
    case JoinPhase.Disabled(_) if !state.isDisabled =>
    // Scans go on as they do without it.
    case JoinPhase.Disabled(_) => waiting.clear()
    case JoinPhase.Registered | JoinPhase.Building(_, _) =>
  }

  private def serve(message: Array[Byte], payload: Option[Payload]): Unit = {
    waiting.foreach(Coordinator.send(peers, counters, _, message, payload))
    waiting.clear()
  }

  private def withhold(why: ExchangeCounter.Value, reason: Reason): Unit = {
    counters.add(why)
    state.sending = Some(reason)
  }

  private def encoded(complete: NamedFilter, bytes: Int): (Array[Byte], Option[Payload]) = {
    val fits = bytes.toLong * subscribers.size <= pace.fanOutBytes
    if (!fits)
      withhold(withheldBytes, Reasons.TooManyBytes(bytes, subscribers.size, pace.fanOutBytes))
    val sent = if (fits) complete else NamedFilter(FilterName(state.filterId, 0), rangeOf(complete.filter))
    LiveFilterMessage(executionId, sent.name, FilterCodec.encode(sent.filter), peers.payload, counters)
  }

  private def rangeOf(filter: ValueFilter): ValueFilter = filter match {
    case ValueFilter.Members(range, _) => range
    case _ => ValueFilter.All
  }

  def release(): Unit = message.flatMap(_._2).foreach(_.release())
}

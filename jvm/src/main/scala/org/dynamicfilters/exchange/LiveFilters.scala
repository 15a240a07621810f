package org.dynamicfilters.exchange

import scala.collection.mutable

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state._

/** A filter of one execution that the driver sends to executors while their scans run. Guarded by the coordinator's lock.
  *
  * Each subscriber gets the newest generation once. A lost message is not repeated (contract 3): a later generation replaces
  * it.
  *
  * @param first
  *   the generation that executors have before the first message
  * @param schedule
  *   runs work under the coordinator's lock, unless the execution has ended
  */
private[exchange] abstract class LiveFilter(first: Long, schedule: Schedule, outbox: Outbox) {
  // The generation that each subscriber has.
  private val sentTo = mutable.LinkedHashMap.empty[String, Long]
  private var lastMessage: Option[(Long, Outgoing)] = None
  private var isScheduled = false
  private var notBefore = outbox.clock()

  /** The newest generation; `first` if there is nothing to send. */
  protected def generation: Long

  /** The message of the newest generation; None if it is withheld. */
  protected def message(): Option[Outgoing]

  final def subscribers: collection.Set[String] = sentTo.keySet

  /** Adds a subscriber, and sends it the newest generation. An executor that asks again has lost what it had. */
  final def subscribe(peer: String): Unit = {
    sentTo(peer) = first
    sendTo(Seq(peer))
  }

  /** Adds a subscriber, which gets the next generation. */
  protected final def join(peer: String): Unit = if (!sentTo.contains(peer)) sentTo(peer) = first

  final def unsubscribe(peer: String): Unit = sentTo -= peer

  /** Sends the newest generation to the subscribers that lack it. */
  final def push(): Unit = sendTo(sentTo.keys.toSeq)

  /** Pushes as soon as the pace allows. Several calls before that make one push. */
  final def pushSoon(): Unit = if (!isScheduled) {
    val wait = math.max(0L, (notBefore - outbox.clock()) / 1000000)
    isScheduled = schedule.later(wait) {
      isScheduled = false
      notBefore = outbox.clock() + outbox.pace.pauseAfterPush(sentTo.size) * 1000000
      push()
    }
  }

  private def sendTo(peers: Seq[String]): Unit = {
    val newest = generation
    val lacking = peers.filter(sentTo(_) < newest)
    if (lacking.nonEmpty) {
      if (!lastMessage.exists(_._1 == newest)) {
        release()
        lastMessage = message().map((newest, _))
      }
      for ((_, m) <- lastMessage; peer <- lacking) {
        outbox.send(peer, m)
        sentTo(peer) = newest
      }
    }
  }

  /** Drops the broadcast of the last message. */
  final def release(): Unit = {
    lastMessage.flatMap(_._2.payload).foreach(_.release())
    lastMessage = None
  }

  /** Whether a filter may be sent to all subscribers. */
  protected final def fits(bytes: Int): Boolean = bytes.toLong * sentTo.size <= outbox.pace.fanOutBytes
}

/** A TopK: merges the contributions of executors into one bound for the whole cluster. */
private[exchange] final class LiveTopK(
    executionId: Long,
    name: FilterName,
    spec: TopKSpec,
    schedule: Schedule,
    outbox: Outbox
) extends LiveFilter(first = 0, schedule, outbox) {
  private val merged = new TopKState(spec)

  def bound: TopKBound = merged.bound

  def contribute(peer: String, parts: Seq[WireContribution]): Unit = {
    join(peer)
    val (refused, accepted) = parts.map(_.decode(spec)).partitionMap(identity)
    outbox.counters.add(refusedKeys, refused.size.toLong)
    merged.putAll(accepted) match {
      case TopKState.Outcome.Tightened => pushSoon()
      case TopKState.Outcome.Superseded => outbox.counters.add(superseded)
      case TopKState.Outcome.NotTighter | TopKState.Outcome.NotFull =>
    }
  }

  override protected def generation: Long = bound.generation
  override protected def message(): Option[Outgoing] = {
    val key = Option(bound.key).map(WireKey.encode(spec.domain, _))
    Some(Outgoing(MessageCodec.encode(Message.Bound(executionId, name, generation, key, bound.partition))))
  }
}

/** The filter of a join: sent once to each subscriber, when it is complete. */
private[exchange] final class LiveJoin(executionId: Long, state: JoinState, schedule: Schedule, outbox: Outbox)
    extends LiveFilter(first = 0, schedule, outbox) {

  // A state may settle before its filter is complete.
  override protected def generation: Long = if (state.isSettled && state.named.isDefined) 1 else 0

  override protected def message(): Option[Outgoing] = state.phase match {
    case JoinPhase.Ready(filter, bytes, _, _) =>
      if (state.scansEnded) {
        withhold(withheldLate, Reasons.TooLate)
        None
      } else if (fits(bytes)) state.named.map(encoded)
      else {
        withhold(withheldBytes, Reasons.TooManyBytes(bytes, subscribers.size, outbox.pace.fanOutBytes))
        Some(encoded(NamedFilter(FilterName(state.filterId, 0), rangeOf(filter))))
      }
    case _ => None
  }

  private def encoded(f: NamedFilter): Outgoing =
    outbox.liveFilter(executionId, f.name, FilterCodec.encode(f.filter))

  private def withhold(why: ExchangeCounter.Value, reason: Reason): Unit = {
    outbox.counters.add(why)
    state.record.withhold(reason)
  }

  private def rangeOf(filter: ValueFilter): ValueFilter = filter match {
    case ValueFilter.Members(range, _) => range
    case _ => ValueFilter.All
  }
}

/** A user filter whose scans follow its updates. The first generation travelled with the tasks. */
private[exchange] final class LiveUser(executionId: Long, state: UserState, schedule: Schedule, outbox: Outbox)
    extends LiveFilter(first = state.ref.generation.number, schedule, outbox) {

  override protected def generation: Long = state.newest.number

  override protected def message(): Option[Outgoing] = {
    val newest = state.newest
    if (fits(newest.encoded.length))
      Some(outbox.liveFilter(executionId, FilterName(state.ref.id, newest.number), newest.encoded))
    else {
      outbox.counters.add(withheldBytes)
      None
    }
  }
}

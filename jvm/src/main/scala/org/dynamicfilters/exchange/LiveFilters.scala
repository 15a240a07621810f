package org.dynamicfilters.exchange

import scala.collection.mutable

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.proto.TopKContribution
import org.dynamicfilters.state._

/** A filter of one execution that the driver sends to running scans of executors. Guarded by the coordinator's lock.
  *
  * Each subscriber gets the newest generation once. A lost message is not repeated (contract 3): a later generation
  * replaces it.
  *
  * @param first the generation that executors have before the first message
  * @param schedule runs work under the coordinator's lock, unless the execution has ended
  */
private[exchange] abstract class LiveFilter(first: Long, schedule: Schedule, outbox: Outbox) {
  // The generation that each subscriber has.
  private val sentTo = mutable.LinkedHashMap.empty[String, Long]
  private var lastMessage: Option[(Long, Array[Byte])] = None
  private val pace = new ExchangePace(schedule, outbox.clock)

  /** The newest generation; `first` if there is nothing to send. */
  protected def generation: Long

  /** The message of the newest generation; None if it is withheld. */
  protected def message(): Option[Array[Byte]]

  /** The message with the contents of a filter; None if it is too large. */
  protected final def contents(executionId: Long, name: FilterName, bytes: Long)(
      encoded: => Array[Byte]
  ): Option[Array[Byte]] =
    if (bytes <= MessageCodec.MostPushedBytes)
      Some(MessageCodec.contents(executionId, name, encoded).toByteArray)
    else {
      outbox.counters.add(notSentTooLong)
      None
    }

  final def subscribers: collection.Set[String] = sentTo.keySet

  /** Adds a subscriber, and sends it the newest generation. An executor that asks again has lost what it had. */
  final def subscribe(peer: String): Unit = {
    sentTo(peer) = first
    sendTo(Seq(peer))
  }

  /** Adds a subscriber, which gets the next generation. */
  protected final def join(peer: String): Unit = if (!sentTo.contains(peer)) sentTo(peer) = first

  final def unsubscribe(peer: String): Unit = sentTo -= peer

  /** Sends the newest generation to the subscribers that lack it. Returns the message's length, 0 if there is none. */
  final def push(): Long = sendTo(sentTo.keys.toSeq)

  /** Pushes as soon as the pace allows. Several calls before that make one push. */
  final def pushSoon(): Unit = pace.soon(push())

  private def sendTo(peers: Seq[String]): Long = {
    val newest = generation
    val lacking = peers.filter(sentTo(_) < newest)
    if (lacking.isEmpty) 0L
    else {
      if (!lastMessage.exists(_._1 == newest)) lastMessage = message().map((newest, _))
      for ((_, m) <- lastMessage; peer <- lacking) {
        outbox.send(peer, m)
        sentTo(peer) = newest
      }
      lastMessage.fold(0L)(_._2.length.toLong)
    }
  }
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

  def contribute(peer: String, parts: Seq[TopKContribution]): Unit = {
    join(peer)
    merged.putAll(parts.map(MessageCodec.contribution(spec, _))) match {
      case TopKState.Outcome.Tightened => pushSoon()
      case TopKState.Outcome.Superseded => outbox.counters.add(superseded)
      case TopKState.Outcome.NotTighter =>
    }
  }

  override protected def generation: Long = bound.generation
  override protected def message(): Option[Array[Byte]] =
    Some(MessageCodec.bound(executionId, name, spec.domain, bound).toByteArray)
}

/** The filter of a join: sent once to each subscriber, when it is complete. */
private[exchange] final class LiveJoin(executionId: Long, state: JoinState, schedule: Schedule, outbox: Outbox)
    extends LiveFilter(first = 0, schedule, outbox) {

  // A state may settle before its filter is complete.
  override protected def generation: Long = if (state.isSettled && state.named.isDefined) 1 else 0

  override protected def message(): Option[Array[Byte]] =
    if (state.scansEnded) {
      outbox.counters.add(withheldLate)
      None
    } else
      (state.named, state.phase) match {
        case (Some(f), JoinPhase.Ready(_, bytes, _, _)) =>
          contents(executionId, f.name, bytes.toLong)(FilterCodec.encode(f.filter))
        case _ => None
      }
}

/** A user filter whose scans follow its updates. The first generation travelled with the tasks. */
private[exchange] final class LiveUser(executionId: Long, state: UserState, schedule: Schedule, outbox: Outbox)
    extends LiveFilter(first = state.ref.generation.number, schedule, outbox) {

  override protected def generation: Long = state.newest.number

  override protected def message(): Option[Array[Byte]] = {
    val newest = state.newest
    contents(executionId, FilterName(state.ref.id, newest.number), newest.sizeBytes)(newest.encoded)
  }
}

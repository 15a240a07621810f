package org.dynamicfilters.exchange

import scala.collection.mutable

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.state.{FilterName, UserState}

/** A user's filter for executors whose scans follow its updates, in one execution. Guarded by the coordinator's lock.
  *
  * Each executor gets the newest generation, not all of them, and not more often than the pace allows.
  */
private[exchange] final class LiveUser(
    executionId: Long,
    state: UserState,
    peers: Peers,
    pace: ExchangePace,
    counters: ExchangeCounters,
    clock: () => Long
) {

  /** What each executor has: the number of a generation. The first one travelled with the tasks. */
  private val has = mutable.LinkedHashMap.empty[String, Long]
  private var scheduled = false
  private var notBefore = clock()
  // Of the newest generation, made when there is somebody to send it to.
  private var message: Option[(Long, Array[Byte], Option[Payload])] = None

  def subscribe(peer: String): Unit = {
    has.getOrElseUpdate(peer, state.ref.generation.number)
    serve(Seq(peer))
  }

  def peersServed: Iterable[String] = has.keys
  def forget(peer: String): Unit = has -= peer

  /** When to push a new generation, in milliseconds from now; None if somebody is about to. */
  def pushAfter: Option[Long] = Option.when(!scheduled) {
    scheduled = true
    math.max(0L, (notBefore - clock()) / 1000000)
  }

  /** Nobody is about to after all. */
  def isNotPushed(): Unit = scheduled = false

  def push(): Unit = {
    scheduled = false
    notBefore = clock() + pace.pauseAfterPush(has.size) * 1000000
    serve(has.keys.toSeq)
  }

  private def serve(to: Seq[String]): Unit = {
    val newest = state.newest
    val lacking = to.filter(has(_) < newest.number)
    if (lacking.nonEmpty) {
      if (newest.encoded.length.toLong * lacking.size > pace.fanOutBytes) counters.add(withheldBytes)
      else {
        val (_, bytes, payload) = message.filter(_._1 == newest.number).getOrElse {
          release()
          val (bytes, payload) =
            LiveFilterMessage(
              executionId,
              FilterName(state.ref.id, newest.number),
              newest.encoded,
              peers.payload,
              counters
            )
          val made = (newest.number, bytes, payload)
          message = Some(made)
          made
        }
        lacking.foreach { peer =>
          Coordinator.send(peers, counters, peer, bytes, payload)
          has(peer) = newest.number
        }
      }
    }
  }

  def release(): Unit = message.flatMap(_._3).foreach(_.release())
}

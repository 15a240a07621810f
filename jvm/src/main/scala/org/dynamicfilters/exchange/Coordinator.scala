package org.dynamicfilters.exchange

import scala.collection.mutable

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.state._

/** The executors, by names under which they made themselves known. */
trait Peers {

  /** One-way. False if there is no such peer, or the message could not be sent. */
  def send(peer: String, message: Array[Byte], payload: Option[Payload]): Boolean

  /** Makes bytes that are too many for a message ready for all peers. */
  def payload(bytes: Array[Byte]): Payload

  /** The same for what belongs to a plan, which an execution may outlive: it is not released. */
  def keptPayload(executionId: Long, bytes: Array[Byte]): Payload = payload(bytes)
}

/** Does work later, one piece after the other. */
trait Schedule {

  /** @return
    *   false if it will not be done
    */
  def later(millis: Long)(work: => Unit): Boolean
}

/** The driver's part of the exchange: merges what executors know of a TopK into one bound for all, and hands out filters of
  * joins that became complete while their scans run.
  *
  * It sends only to executors that asked for a filter, only what is tighter than what it sent before, and not more often than
  * `pace` allows. It never waits for anybody; whatever is lost leaves a filter looser than it could be.
  *
  * Thread-safe.
  *
  * @param executions
  *   the driver's, which own what is coordinated for them
  * @param clock
  *   nanoseconds
  */
final class Coordinator(
    executions: Executions,
    filters: FilterSource,
    peers: Peers,
    schedule: Schedule,
    pace: ExchangePace,
    counters: ExchangeCounters,
    clock: () => Long
) {

  /** What is coordinated for an execution; it goes with the execution. */
  private[exchange] final class Coordinated(val id: Long) extends AutoCloseable {
    val bounds = mutable.HashMap.empty[FilterName, LiveTopK]
    val joins = mutable.HashMap.empty[Long, LiveJoin]
    val users = mutable.HashMap.empty[Long, LiveUser]
    val peers = mutable.LinkedHashSet.empty[String]
    @volatile var isOpen = true

    /** Drops all, and tells the executors that worked for it. Spark's listeners wait for this, and under the lock a filter of
      * another query may be encoded for seconds.
      */
    override def close(): Unit = {
      isOpen = false
      if (!schedule.later(0)(end())) end()
    }

    private def end(): Unit = Coordinator.this.synchronized {
      val message = MessageCodec.encode(Message.Ended(id))
      (peers ++ joins.valuesIterator.flatMap(_.peersServed) ++ users.valuesIterator.flatMap(_.peersServed))
        .foreach(send(_, message))
      joins.valuesIterator.foreach(_.release())
      users.valuesIterator.foreach(_.release())
    }
  }

  private[exchange] final class LiveTopK(val execution: Coordinated, val name: FilterName, val spec: TopKSpec) {
    val merged = new TopKState(spec)
    val subscribers = mutable.LinkedHashSet.empty[String]
    var scheduled = false
    var notBefore: Long = clock()

    def message: Array[Byte] = {
      val b = merged.bound
      val key = Option(b.key).map(WireKey.of(spec.domain, _))
      MessageCodec.encode(Message.Bound(execution.id, name, b.generation, key, b.partition))
    }
  }

  /** Takes a message of an executor. */
  def received(peer: String, bytes: Array[Byte]): Unit = {
    counters.add(ExchangeCounter.received)
    counters.add(receivedBytes, bytes.length.toLong)
    MessageCodec.decode(bytes) match {
      case Left(refusal) => counters.refused(refusal)
      case Right(m: Message.Contributions) => contributed(peer, m)
      case Right(m: Message.Subscribe) => subscribed(peer, m)
      case Right(m: Message.Joined) => joined(peer, m)
      // What only the driver says.
      case Right(_) => counters.add(refusedMalformed)
    }
  }

  private def contributed(peer: String, m: Message.Contributions): Unit = synchronized {
    coordinated(m.executionId).flatMap(boundOf(_, m.filter)) match {
      case None => unknown(peer, m.executionId)
      case Some(b) =>
        join(b, peer)
        val (wrong, parts) = m.parts.map(WireContribution.read(b.spec, _)).partitionMap(identity)
        counters.add(refusedKeys, wrong.size.toLong)
        b.merged.putAll(parts) match {
          case TopKState.Outcome.Tightened => schedulePush(b)
          case TopKState.Outcome.Superseded => counters.add(superseded)
          case TopKState.Outcome.NotTighter | TopKState.Outcome.NotFull =>
        }
    }
  }

  private def subscribed(peer: String, m: Message.Subscribe): Unit = {
    val name = m.filter
    val joinState = filters.join(name.filterId)
    joinState.foreach(build)
    synchronized {
      val isKnown = coordinated(m.executionId).exists { e =>
        boundOf(e, name) match {
          case Some(b) =>
            join(b, peer)
            if (!b.merged.bound.isNone) send(peer, b.message)
            true
          case None =>
            val user = if (joinState.isEmpty) filters.user(e.id, name.filterId) else None
            joinState.foreach(lateJoin(e, _).subscribe(peer))
            user.foreach(liveUser(e, _).subscribe(peer))
            joinState.isDefined || user.isDefined
        }
      }
      if (!isKnown) unknown(peer, m.executionId)
    }
  }

  /** Builds the filter if all partitions have reported. Call it without the lock: answers to tasks take the lock for bounds
    * of TopKs ([[bound]]).
    */
  private def build(joinState: JoinState): Unit = joinState.current

  /** Answers an executor's question: what to reply, and what goes beside it; None to what is no question. */
  def asked(bytes: Array[Byte]): Option[(Array[Byte], Option[Payload])] = {
    counters.add(ExchangeCounter.received)
    counters.add(receivedBytes, bytes.length.toLong)
    MessageCodec.decode(bytes) match {
      case Left(refusal) => counters.refused(refusal); None
      case Right(m: Message.SnapshotRequest) =>
        table(m.table).map { t =>
          val schedule = t.asked(m.partition, m.attempt, m.isFirst, m.newFrom, m.execution)
          val encoded = SnapshotCodec.encode(schedule, t.topKs)
          (MessageCodec.encode(Message.SnapshotReply(m.executionId, m.table, encoded)), None)
        }
      case Right(m: Message.FilterRequest) =>
        table(m.table).flatMap(_.once(m.filter) { f =>
          val encoded = FilterCodec.encode(f)
          LiveFilterMessage(m.executionId, m.filter, encoded, peers.keptPayload(m.executionId, _), counters)
        })
      case Right(_) => counters.add(refusedMalformed); None
    }
  }

  private def table(id: Long): Option[Snapshots] = {
    val found = Snapshots.find(id)
    if (found.isEmpty) counters.add(refusedUnknown)
    found
  }

  /** The filter for a task that asks. The task holds a slot until it is answered (contract 7), so a large filter is not
    * built here. Its build is scheduled, and this answer has no filter.
    */
  def currentForTask(state: JoinState): Option[NamedFilter] = state.phaseAtEnd match {
    case JoinPhase.Ready(_, _, _, _) => state.named
    case JoinPhase.Building(_, JoinPhase.Reports.All) =>
      schedule.later(0)(build(state))
      None
    case _ => None
  }

  /** The bound of a TopK as the driver knows it. */
  def bound(executionId: Long, name: FilterName): TopKBound = synchronized {
    executions
      .find[Coordinated](executionId, Coordinator.Key)
      .flatMap(_.bounds.get(name))
      .fold(TopKBound.none)(_.merged.bound)
  }

  private def joined(peer: String, m: Message.Joined): Unit = synchronized {
    coordinated(m.executionId) match {
      case Some(e) => e.peers += peer
      case None => unknown(peer, m.executionId)
    }
  }

  /** An executor that asks for what has ended has missed that it did. */
  private def unknown(peer: String, executionId: Long): Unit = {
    counters.add(refusedUnknown)
    if (executions.hasEnded(executionId)) send(peer, MessageCodec.encode(Message.Ended(executionId)))
  }

  private def join(b: LiveTopK, peer: String): Unit = {
    b.subscribers += peer
    b.execution.peers += peer
  }

  private def boundOf(e: Coordinated, name: FilterName): Option[LiveTopK] =
    filters.topK(name.filterId).map(spec => e.bounds.getOrElseUpdate(name, new LiveTopK(e, name, spec)))

  private def lateJoin(e: Coordinated, state: JoinState): LiveJoin =
    e.joins.getOrElseUpdate(
      state.filterId, {
        val made = new LiveJoin(e.id, state, peers, pace, counters)
        // Called on the scheduler's thread, among others.
        state.onSettled(() =>
          schedule.later(0) {
            if (e.isOpen) build(state)
            synchronized(if (e.isOpen) made.settled())
          }
        )
        made
      }
    )

  private def liveUser(e: Coordinated, state: UserState): LiveUser =
    e.users.getOrElseUpdate(
      state.ref.id, {
        val made = new LiveUser(e.id, state, peers, pace, counters, clock)
        // Called on the thread of whoever updates the filter, under the state's lock: this one's is not taken there.
        state.onTightened { () =>
          schedule.later(0)(synchronized {
            if (e.isOpen) made.pushAfter.foreach { millis =>
              if (!schedule.later(millis)(synchronized(if (e.isOpen) made.push()))) made.isNotPushed()
            }
          })
        }
        made
      }
    )

  private def coordinated(id: Long): Option[Coordinated] =
    executions.attach(id, Coordinator.Key)(new Coordinated(id))

  private def schedulePush(b: LiveTopK): Unit = if (!b.scheduled) {
    val wait = math.max(0L, (b.notBefore - clock()) / 1000000)
    b.scheduled = schedule.later(wait)(push(b))
  }

  private def push(b: LiveTopK): Unit = synchronized {
    b.scheduled = false
    if (b.execution.isOpen) {
      b.notBefore = clock() + pace.pauseAfterPush(b.subscribers.size) * 1000000
      val message = b.message
      b.subscribers.foreach(send(_, message))
    }
  }

  private def send(peer: String, message: Array[Byte]): Unit =
    Coordinator.send(peers, counters, peer, message, None)

  /** Forgets an executor. What it contributed stays true: the rows exist. */
  def peerLost(peer: String): Unit = synchronized {
    executions.all[Coordinated].foreach { e =>
      e.peers -= peer
      e.bounds.valuesIterator.foreach(_.subscribers -= peer)
      e.joins.valuesIterator.foreach(_.forget(peer))
      e.users.valuesIterator.foreach(_.forget(peer))
    }
  }

  /** Executions for which anything is coordinated. */
  def liveExecutions: Int = executions.all[Coordinated].size
}

object Coordinator {
  private object Key

  private[exchange] def send(
      peers: Peers,
      counters: ExchangeCounters,
      peer: String,
      message: Array[Byte],
      payload: Option[Payload]
  ): Unit =
    if (peers.send(peer, message, payload)) {
      counters.add(sent)
      counters.add(sentBytes, message.length.toLong)
    } else counters.add(sendFailed)
}

package org.dynamicfilters.exchange

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.proto.ExchangeMessage.BodyCase
import org.dynamicfilters.proto.FilterNameMessage
import org.dynamicfilters.state._

/** The driver's part of the exchange: merges the contributions of executors to a TopK into one bound, and sends filters
  * that become complete while their scans run.
  *
  * Sends a filter only to executors that asked for it, and not more often than [[ExchangePace]] allows. Never waits for
  * an executor. If a message is lost, a filter stays looser than it could be.
  *
  * Thread-safe.
  *
  * @param executions those of the driver; each holds its live filters
  */
final class Coordinator(executions: Executions, filters: FilterSource, outbox: Outbox, schedule: Schedule) {
  import outbox.counters

  /** The live filters of an execution, dropped when it ends. Guarded by the coordinator's lock. */
  private final class LiveExecution(val id: Long) extends Schedule with AutoCloseable {
    private val live = mutable.HashMap.empty[FilterName, LiveFilter]
    private val joined = mutable.LinkedHashSet.empty[String]
    @volatile private var isOpen = true

    /** An executor holds something of the execution, and must hear of its end. */
    def join(peer: String): Unit = joined += peer

    def find(name: FilterName): Option[LiveFilter] = live.get(name)

    /** The filter, made at the first message about it; None if the driver does not know it. */
    def filter(name: FilterName): Option[LiveFilter] = find(name).orElse {
      val made = filters
        .topK(name.filterId)
        .map(new LiveTopK(id, name, _, this, outbox))
        .orElse(filters.join(name.filterId).map(liveJoin))
        .orElse(filters.user(id, name.filterId).map(liveUser))
      made.foreach(live(name) = _)
      made
    }

    private def liveJoin(state: JoinState): LiveFilter = {
      val made = new LiveJoin(id, state, this, outbox)
      // Spark's scheduler may call this.
      state.onSettled { () =>
        schedule.later(0) {
          if (isOpen) build(state)
          locked(made.push())
        }
      }
      made
    }

    private def liveUser(state: UserState): LiveFilter = {
      val made = new LiveUser(id, state, this, outbox)
      // Called under the lock of the state, so the coordinator's lock must not be taken.
      state.onTightened(() => later(0)(made.pushSoon()))
      made
    }

    /** Does work under the coordinator's lock, unless the execution has ended. */
    override def later(millis: Long)(work: => Unit): Boolean = schedule.later(millis)(locked(work))

    private def locked(work: => Unit): Unit = Coordinator.this.synchronized(if (isOpen) work)

    def unsubscribe(peer: String): Unit = {
      joined -= peer
      live.valuesIterator.foreach(_.unsubscribe(peer))
    }

    /** Tells the executors. Not at once, because Spark's listeners call it, and the lock may be held for seconds. */
    override def close(): Unit = {
      isOpen = false
      if (!schedule.later(0)(tellEnd())) tellEnd()
    }

    private def tellEnd(): Unit = Coordinator.this.synchronized {
      (joined ++ live.valuesIterator.flatMap(_.subscribers)).foreach(sendEnded(_, id))
    }
  }

  /** Handles a message of an executor. */
  def received(peer: String, bytes: Array[Byte]): Unit = MessageCodec.received(bytes, counters).foreach { m =>
    val id = m.getExecutionId
    m.getBodyCase match {
      case BodyCase.CONTRIBUTIONS =>
        withFilter(peer, id, m.getContributions.getFilter) {
          case t: LiveTopK => t.contribute(peer, m.getContributions.getPartsList.asScala.toSeq)
          case _ => counters.add(refusedUnknown)
        }
      case BodyCase.SUBSCRIPTION =>
        val name = m.getSubscription.getFilter
        filters.join(name.getFilterId).foreach(build)
        withFilter(peer, id, name)(_.subscribe(peer))
      case BodyCase.JOINED => synchronized(open(id).fold(refuseUnknown(peer, id))(_.join(peer)))
      // Only the driver sends the others.
      case _ => counters.add(refusedMalformed)
    }
  }

  private def withFilter(peer: String, executionId: Long, name: FilterNameMessage)(f: LiveFilter => Unit): Unit =
    synchronized(
      open(executionId).flatMap(_.filter(MessageCodec.name(name))).fold(refuseUnknown(peer, executionId))(f)
    )

  private def open(executionId: Long): Option[LiveExecution] =
    executions.attach(executionId, Coordinator.Key)(new LiveExecution(executionId))

  /** If the execution has ended, the executor has missed that, and is told again. */
  private def refuseUnknown(peer: String, executionId: Long): Unit = {
    counters.add(refusedUnknown)
    if (executions.hasEnded(executionId)) sendEnded(peer, executionId)
  }

  private def sendEnded(peer: String, executionId: Long): Unit =
    outbox.send(peer, MessageCodec.ended(executionId).toByteArray)

  /** Builds the filter if all partitions have reported. Called without the lock, which answers to tasks take. */
  private def build(state: JoinState): Unit = state.current

  /** The answer to a question of a task; None if the bytes are no question, or there is no answer. */
  def asked(bytes: Array[Byte]): Option[Array[Byte]] = MessageCodec.received(bytes, counters).flatMap { m =>
    m.getBodyCase match {
      case BodyCase.SNAPSHOT_REQUEST =>
        val r = m.getSnapshotRequest
        table(r.getTable).map { t =>
          val snapshot = t.ofPartition(r.getPartition, r.getIsFirst, MessageCodec.execution(m))
          MessageCodec.snapshot(m.getExecutionId, t.id, snapshot, t.topKs).toByteArray
        }
      case BodyCase.FILTER_REQUEST =>
        val name = MessageCodec.name(m.getFilterRequest.getFilter)
        table(m.getFilterRequest.getTable)
          .flatMap(_.once(name)(f => MessageCodec.contents(m.getExecutionId, name, FilterCodec.encode(f)).toByteArray))
      case _ =>
        counters.add(refusedMalformed)
        None
    }
  }

  private def table(id: Long): Option[Snapshots] = {
    val found = Snapshots.find(id)
    if (found.isEmpty) counters.add(refusedUnknown)
    found
  }

  /** The filter for a task that asks. The task holds a slot until it is answered (contract 7), so a large filter is not
    * built here. Its build is scheduled, and this answer has no filter. A filter that is too large to be sent is left
    * out too.
    */
  def currentForTask(state: JoinState): Option[NamedFilter] = state.phaseAtEnd match {
    case JoinPhase.Ready(_, bytes, _, _) => state.named.filter(_ => DriverExchange.canPush(bytes.toLong))
    case JoinPhase.Building(_, JoinPhase.Reports.All) =>
      schedule.later(0)(build(state))
      None
    case _ => None
  }

  /** The cluster's bound of a TopK. */
  def bound(executionId: Long, name: FilterName): TopKBound = synchronized {
    executions
      .find[LiveExecution](executionId, Coordinator.Key)
      .flatMap(_.find(name))
      .collect { case t: LiveTopK => t.bound }
      .getOrElse(TopKBound.none)
  }

  /** Forgets an executor. Its contributions stay, because the rows exist. */
  def peerLost(peer: String): Unit = synchronized(executions.all[LiveExecution].foreach(_.unsubscribe(peer)))

  /** Number of executions with live filters. */
  def liveExecutions: Int = executions.all[LiveExecution].size
}

private object Coordinator {
  object Key
}

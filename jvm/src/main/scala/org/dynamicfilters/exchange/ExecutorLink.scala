package org.dynamicfilters.exchange

import java.util.concurrent.atomic.AtomicBoolean

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.state.{
  ClusterLink,
  Executions,
  FilterName,
  NamedFilter,
  TestHooks,
  TopKBound,
  TopKSpec,
  TopKState
}

/** An executor's part of the exchange: tells the driver what its tasks know, and takes over what the driver says.
  *
  * Tasks only mark what is new; encoding and sending is the schedule's work. Thread-safe.
  *
  * @param executions
  *   those of this process
  * @param driver
  *   sends a message; never blocks, an exception means that it was not sent
  * @param clock
  *   nanoseconds
  */
final class ExecutorLink(
    executions: Executions,
    driver: Array[Byte] => Unit,
    schedule: Schedule,
    pace: ExchangePace,
    counters: ExchangeCounters,
    clock: () => Long
) extends ClusterLink {

  /** One TopK's way to the driver. */
  private final class Outgoing(executionId: Long, name: FilterName) {
    private val scheduled = new AtomicBoolean
    @volatile private var notBefore = clock()

    def changed(shared: TopKState): Unit = if (!scheduled.get && scheduled.compareAndSet(false, true)) {
      val wait = math.max(0L, (notBefore - clock()) / 1000000)
      if (!schedule.later(wait)(flush(shared))) scheduled.set(false)
    }

    private def flush(shared: TopKState): Unit = {
      // First, so that what comes meanwhile is not forgotten.
      scheduled.set(false)
      val parts = shared.takeUnsent().map(WireContribution.of(shared.spec, _))
      if (parts.nonEmpty) {
        val bytes = sendParts(parts)
        notBefore = clock() + pace.pause(bytes) * 1000000
      }
    }

    /** In as many messages as it takes.
      *
      * @return
      *   bytes sent
      */
    private def sendParts(parts: Seq[WireContribution]): Long = {
      val message = MessageCodec.encode(Message.Contributions(executionId, name, parts))
      if (message.length <= MessageCodec.MaxBytes) { send(message); message.length.toLong }
      else if (parts.size > 1) {
        val (a, b) = parts.splitAt(parts.size / 2)
        sendParts(a) + sendParts(b)
      } else { counters.add(notSentTooLong); 0L }
    }
  }

  override def topK(executionId: Long, name: FilterName, spec: TopKSpec): TopKState = {
    val outgoing = new Outgoing(executionId, name)
    subscribe(executionId, name)
    new TopKState(spec, Some(outgoing.changed))
  }

  override def subscribe(executionId: Long, name: FilterName): Unit =
    schedule.later(0)(send(MessageCodec.encode(Message.Subscribe(executionId, name))))

  override def joined(executionId: Long): Unit = {
    schedule.later(0)(send(MessageCodec.encode(Message.Joined(executionId))))
    sweepLater()
  }

  private def send(message: Array[Byte]): Unit =
    try {
      driver(message)
      counters.add(sent)
      counters.add(sentBytes, message.length.toLong)
    } catch { case _: Exception => counters.add(sendFailed) }

  private val sweeping = new AtomicBoolean

  /** The driver's word that an execution ended may be lost. */
  private def sweepLater(): Unit = if (sweeping.compareAndSet(false, true)) {
    val will = schedule.later(ExecutorLink.SweepMillis) {
      sweeping.set(false)
      executions.sweep()
      if (executions.live > 0) sweepLater()
    }
    if (!will) sweeping.set(false)
  }

  /** Takes a message of the driver; on the schedule's thread.
    *
    * @param payload
    *   fetches what came as a broadcast beside it
    */
  def received(bytes: Array[Byte], payload: Option[() => Array[Byte]]): Unit = {
    counters.add(ExchangeCounter.received)
    counters.add(receivedBytes, bytes.length.toLong)
    MessageCodec.decode(bytes) match {
      case Left(refusal) => counters.refused(refusal)
      case Right(m: Message.Bound) => bound(m)
      case Right(m: Message.JoinFilter) => joinFilter(m, payload)
      case Right(m: Message.Ended) => executions.close(m.executionId)
      // What only executors say.
      case Right(_) => counters.add(refusedMalformed)
    }
  }

  private def bound(m: Message.Bound): Unit = executions.topK(m.executionId, m.filter) match {
    case None => counters.add(refusedUnknown)
    case Some(shared) =>
      val spec = shared.spec
      val key = m.key match {
        case Some(k) => WireKey.read(spec.domain, k)
        case None => Either.cond(spec.nullsFirst, null, "a bound of NULL where nulls are not counted")
      }
      key match {
        case Right(k) if m.partition >= 0 =>
          shared.adopt(TopKBound(m.generation, k, m.partition)) match {
            case TopKState.Outcome.Tightened =>
              counters.add(boundsAdopted)
              TestHooks.current.adopted(m.executionId, shared.bound)
            case _ => counters.add(boundsNotTighter)
          }
        case _ => counters.add(refusedKeys)
      }
  }

  private def joinFilter(m: Message.JoinFilter, payload: Option[() => Array[Byte]]): Unit =
    executions.late(m.executionId, m.filter.filterId) match {
      case None => counters.add(refusedUnknown)
      case Some(late) =>
        executions
          .contents(Some(m.executionId), m.filter)(LiveFilterMessage.read(m, payload, counters))
          .foreach(f => late.offer(NamedFilter(m.filter, f)))
    }
}

private object ExecutorLink {
  val SweepMillis: Long = 10 * 1000
}

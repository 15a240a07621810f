package org.dynamicfilters.exchange

import java.util.concurrent.atomic.AtomicBoolean

import org.dynamicfilters.exchange.ExchangeCounter._
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.proto.{ExchangeMessage, JoinFilterUpdate, TopKBoundUpdate}
import org.dynamicfilters.proto.ExchangeMessage.BodyCase
import org.dynamicfilters.state._

/** An executor's part of the exchange: sends what its tasks know to the driver, and takes over what the driver sends.
  *
  * Tasks only mark news; the schedule encodes and sends. Thread-safe.
  *
  * @param executions those of this process
  * @param driver sends a message without blocking; throws if it was not sent
  * @param clock nanoseconds
  */
final class ExecutorLink(
    executions: Executions,
    driver: Array[Byte] => Unit,
    schedule: Schedule,
    counters: ExchangeCounters,
    clock: () => Long
) extends ClusterLink {

  override def topK(executionId: Long, name: FilterName, spec: TopKSpec): TopKState = {
    val pace = new ExchangePace(schedule, clock)
    def sendNews(shared: TopKState): Long = {
      val parts = shared.takeUnsent().map(MessageCodec.contribution(spec, _))
      if (parts.isEmpty) 0L
      else {
        val message = MessageCodec.contributions(executionId, name, parts).toByteArray
        if (message.length <= MessageCodec.MaxBytes) send(message) else counters.add(notSentTooLong)
        message.length.toLong
      }
    }
    subscribe(executionId, name)
    new TopKState(spec, Some(shared => pace.soon(sendNews(shared))))
  }

  override def subscribe(executionId: Long, name: FilterName): Unit = sendLater(
    MessageCodec.subscribe(executionId, name)
  )

  override def joined(executionId: Long): Unit = {
    sendLater(MessageCodec.joined(executionId))
    sweepLater()
  }

  private def sendLater(m: ExchangeMessage): Unit = schedule.later(0)(send(m.toByteArray))

  private def send(message: Array[Byte]): Unit =
    try {
      driver(message)
      counters.addSent(message)
    } catch { case _: Exception => counters.add(sendFailed) }

  private final val SweepMillis = 10000L
  private val isSweepScheduled = new AtomicBoolean

  /** Sweeps idle executions, because the message that an execution ended may be lost. */
  private def sweepLater(): Unit = if (isSweepScheduled.compareAndSet(false, true)) {
    val will = schedule.later(SweepMillis) {
      isSweepScheduled.set(false)
      executions.sweep()
      if (executions.live > 0) sweepLater()
    }
    if (!will) isSweepScheduled.set(false)
  }

  /** Handles a message of the driver, on the schedule's thread. */
  def received(bytes: Array[Byte]): Unit =
    MessageCodec.received(bytes, counters).foreach { m =>
      m.getBodyCase match {
        case BodyCase.BOUND => bound(m.getExecutionId, m.getBound)
        case BodyCase.JOIN_FILTER => lateFilter(m.getExecutionId, m.getJoinFilter)
        case BodyCase.ENDED => executions.close(m.getExecutionId)
        // Only executors send the others.
        case _ => counters.add(refusedMalformed)
      }
    }

  private def bound(executionId: Long, m: TopKBoundUpdate): Unit =
    executions.topK(executionId, MessageCodec.name(m.getFilter)) match {
      case None => counters.add(refusedUnknown)
      case Some(shared) =>
        shared.adopt(MessageCodec.bound(m, shared.spec.domain)) match {
          case TopKState.Outcome.Tightened =>
            counters.add(boundsAdopted)
            TestHooks.current.adopted(executionId, shared.bound)
          case _ => counters.add(boundsNotTighter)
        }
    }

  private def lateFilter(executionId: Long, m: JoinFilterUpdate): Unit = {
    val name = MessageCodec.name(m.getFilter)
    executions.late(executionId, name.filterId) match {
      case None => counters.add(refusedUnknown)
      case Some(late) =>
        executions
          .contents(Some(executionId), name)(contents(m))
          .foreach(f => late.offer(NamedFilter(name, f)))
    }
  }

  /** Decodes the filter in a message; None, which is counted, if that fails. */
  def contents(m: JoinFilterUpdate): Option[ValueFilter] = {
    val filter = FilterCodec.decode(m.getEncoded.toByteArray).toOption
    if (filter.isEmpty) counters.add(undecodable)
    filter
  }
}

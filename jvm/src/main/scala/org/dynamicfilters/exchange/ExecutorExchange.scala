package org.dynamicfilters.exchange

import java.util.UUID
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.report.LiveCounts
import org.dynamicfilters.testing.FaultInjection

/** An executor's end of the exchange, one in a process. The plugin starts it with the executor, or else the first task that
  * carries a filter: where only the session extension is configured nobody else does.
  */
object ExecutorExchange extends Logging {
  private sealed trait State
  private object State {
    case object Stopped extends State
    case object Connecting extends State
    final case class Connected(wire: RpcAccess.DriverWire) extends State

    /** There is no use in trying again: the driver has no such endpoint, or is not heard. */
    case object Failed extends State
  }

  private val counters = ExchangeCounters.instance
  private val state = new AtomicReference[State](State.Stopped)
  private lazy val worker = new Worker("executor", MostWaiting, counters)
  private val MostWaiting = 10000

  /** Idempotent, and returns at once. In the driver's own process it does nothing: its tasks share everything already. */
  def start(): Unit =
    if (state.get == State.Stopped && !RpcAccess.isDriver && state.compareAndSet(State.Stopped, State.Connecting)) {
      FaultInjection.startExecutor()
      // Before there is a connection tasks may mark what is new: the worker sends it after that.
      LocalExchange.instance.connect(Some(link))
      if (!worker.later(0)(connect())) state.set(State.Failed)
    }

  private lazy val link = {
    val wire: Wire = message =>
      state.get match {
        case State.Connected(wire) => wire.send(message)
        case other => throw new IllegalStateException(s"the exchange is $other")
      }
    val faults = FaultInjection.current
    new ExecutorLink(
      LocalExchange.instance,
      faults.fold(wire)(_.wire(wire)),
      worker,
      ExchangePace(),
      counters,
      () => System.nanoTime(),
      faults.fold[(Long, TopKBound) => Unit]((_, _) => ())(f => f.adopted(_, _))
    )
  }

  private def connect(): Unit = {
    // A process may hold several class loaders of ours, each with its own filters.
    val peer = s"${RpcAccess.executorId}-${UUID.randomUUID()}"
    try {
      val wire = RpcAccess.connect(
        DriverExchange.EndpointName,
        peer,
        new RpcAccess.ExecutorReceiver {
          override def received(bytes: Array[Byte], payload: Option[() => Array[Byte]]): Unit =
            worker.later(0)(link.received(bytes, payload))
          override def refused(): Unit = counters.add(ExchangeCounter.refusedMalformed)
          override def live(): String = LiveCounts.text(LiveCounts.ofProcess)
        }
      )
      state.set(State.Connected(wire))
    } catch {
      case NonFatal(e) =>
        counters.add(ExchangeCounter.sendFailed)
        state.set(State.Failed)
        LocalExchange.instance.connect(None)
        logWarning(
          "Dynamic filters: this executor shares nothing with others, the driver's endpoint does not answer",
          e
        )
    }
  }

  def stop(): Unit = {
    LocalExchange.instance.connect(None)
    state.getAndSet(State.Failed) match {
      case State.Connected(wire) =>
        worker.stop()
        try wire.stop()
        catch { case NonFatal(_) => } // Spark has closed it already.
      case _ =>
    }
  }
}

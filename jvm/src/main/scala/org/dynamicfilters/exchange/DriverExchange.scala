package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.state.{Executions, FilterRef, TestHooks}

/** The driver's end of the exchange of one Spark context: its endpoint, its threads, and the executors it knows. */
final class DriverExchange(sc: SparkContext, counters: ExchangeCounters) extends Peers {
  private final class Peer(val executorId: String, val wire: RpcAccess.PeerWire)

  private val connected = new ConcurrentHashMap[String, Peer]()
  private val worker =
    new Worker("coordinator", DriverExchange.MostWaiting, counters, DriverExchange.MostWaitingBytes)

  // Answers to tasks have a thread of their own, because the other thread may build or encode a filter for seconds while
  // tasks hold their slots (contract 7). `ExecutorExchange` limits how long a task waits, `Coordinator.currentForTask` what an
  // answer may build.
  private val answers = new Worker("answers", DriverExchange.MostWaiting, counters)

  val coordinator =
    new Coordinator(
      Executions.instance,
      FilterRef,
      this,
      worker,
      ExchangePace(),
      counters,
      () => System.nanoTime()
    )

  private val close = RpcAccess.serve(
    DriverExchange.EndpointName,
    new RpcAccess.DriverReceiver {
      override def registered(peer: String, executorId: String, to: RpcAccess.PeerWire): Unit =
        connected.put(peer, new Peer(executorId, to))
      override def received(peer: String, bytes: Array[Byte]): Unit =
        worker.later(0, bytes.length)(TestHooks.current.handles(bytes)(coordinator.received(peer, bytes)))
      override def asked(bytes: Array[Byte], reply: (Array[Byte], Broadcast[Array[Byte]]) => Unit): Unit = {
        def nothing(): Unit = reply(Array.emptyByteArray, null)
        // Encoding a filter takes too long for Spark's threads. An empty answer means that there is none; the task then
        // does not wait for its timeout.
        val will = answers.later(0) {
          try
            coordinator.asked(bytes) match {
              case Some((answer, payload)) => reply(answer, payload.map(broadcastOf).orNull)
              case None => nothing()
            }
          catch { case NonFatal(e) => nothing(); throw e }
        }
        if (!will) nothing()
      }
      override def refused(): Unit = counters.add(ExchangeCounter.refusedMalformed)
    }
  )

  private def broadcastOf(p: Payload): Broadcast[Array[Byte]] = p match {
    case b: DriverExchange.BroadcastPayload => b.broadcast
    case other => throw new IllegalStateException(s"no broadcast: $other")
  }

  override def send(peer: String, message: Array[Byte], payload: Option[Payload]): Boolean =
    TestHooks.current.pushes(peer, message)(sendNow(peer, message, payload))(sendNow(peer, _, None))

  private def sendNow(peer: String, message: Array[Byte], payload: Option[Payload]): Boolean = {
    val to = connected.get(peer)
    to != null && {
      val large = payload.map(broadcastOf).orNull
      try { to.wire.send(message, large); true }
      catch { case NonFatal(_) => false }
    }
  }

  override def payload(bytes: Array[Byte]): Payload =
    new DriverExchange.BroadcastPayload(FilterBroadcasts.ofExecution(sc, bytes))

  override def keptPayload(executionId: Long, bytes: Array[Byte]): Payload =
    new DriverExchange.BroadcastPayload(FilterBroadcasts.ofScan(sc, Option.when(executionId >= 0)(executionId), bytes))

  /** An executor is gone. */
  def executorRemoved(executorId: String): Unit =
    connected.asScala.foreach { case (name, peer) =>
      if (peer.executorId == executorId && connected.remove(name, peer)) worker.later(0)(coordinator.peerLost(name))
    }

  /** What each executor holds, as text, by executor; those that do not answer are left out. Blocks. */
  def live(): Seq[(String, String)] = connected.values.asScala.toSeq.flatMap { peer =>
    try Some(peer.executorId -> peer.wire.live())
    catch { case NonFatal(_) => None }
  }

  def stop(): Unit = {
    worker.stop()
    answers.stop()
    try close()
    catch { case NonFatal(_) => } // Spark has closed it already.
    connected.clear()
  }
}

object DriverExchange {
  val EndpointName = "dynamic-filters"

  @volatile private var running: Option[DriverExchange] = None

  /** Of the running Spark context; None in local mode, where all tasks are in this process. */
  def current: Option[DriverExchange] = running

  def start(sc: SparkContext): Unit = if (!sc.isLocal) running = Some(new DriverExchange(sc, ExchangeCounters.instance))

  def stop(): Unit = {
    running.foreach(_.stop())
    running = None
  }

  private final class BroadcastPayload(val broadcast: Broadcast[Array[Byte]]) extends Payload {
    override def release(): Unit = FilterBroadcasts.destroy(broadcast)
  }

  /** Messages of a thousand executors in a second at their usual pace; what is more is dropped. */
  private val MostWaiting = 50000

  /** They are of some hundred bytes, but the first keys of an order by long texts are not. */
  private val MostWaitingBytes = 64L << 20
}

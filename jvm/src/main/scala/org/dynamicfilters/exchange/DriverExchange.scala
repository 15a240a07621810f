package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.state.{Executions, FilterRef, TestHooks}

/** The driver's end of the exchange of a Spark context: its endpoint, its threads, and the registered executors. */
final class DriverExchange(counters: ExchangeCounters) {
  private final class Peer(val executorId: String, val wire: RpcAccess.PeerWire)

  private val connected = new ConcurrentHashMap[String, Peer]()
  private val worker = new Worker("coordinator", DriverExchange.MaxWaiting, counters, DriverExchange.MaxWaitingBytes)

  // Answers to tasks have a thread of their own, because the other thread may build or encode a filter for seconds
  // while tasks hold their slots (contract 7). `ExecutorExchange` limits how long a task waits,
  // `Coordinator.currentForTask` what an answer may build.
  private val answers = new Worker("answers", DriverExchange.MaxWaiting, counters)

  val coordinator =
    new Coordinator(
      Executions.instance,
      FilterRef,
      new Outbox(send, counters, () => System.nanoTime()),
      worker
    )

  private val close = RpcAccess.serve(
    DriverExchange.EndpointName,
    new RpcAccess.DriverReceiver {
      override def registered(peer: String, executorId: String, to: RpcAccess.PeerWire): Unit =
        connected.put(peer, new Peer(executorId, to))
      override def received(peer: String, bytes: Array[Byte]): Unit =
        worker.later(0, bytes.length)(TestHooks.current.handles(bytes)(coordinator.received(peer, bytes)))
      override def asked(bytes: Array[Byte], reply: Array[Byte] => Unit): Unit = {
        // Tells the task that there is no answer, so that it does not wait for its timeout.
        def replyEmpty(): Unit = reply(Array.emptyByteArray)
        // Encoding a filter takes too long for Spark's threads.
        val will = answers.later(0) {
          try reply(coordinator.asked(bytes).getOrElse(Array.emptyByteArray))
          catch { case NonFatal(e) => replyEmpty(); throw e }
        }
        if (!will) replyEmpty()
      }
      override def refused(): Unit = counters.add(ExchangeCounter.refusedMalformed)
    }
  )

  private def send(peer: String, message: Array[Byte]): Boolean =
    TestHooks.current.pushes(peer, message)(sendNow(peer, message))(sendNow(peer, _))

  private def sendNow(peer: String, message: Array[Byte]): Boolean = {
    val to = connected.get(peer)
    to != null && {
      try { to.wire.send(message); true }
      catch { case NonFatal(_) => false }
    }
  }

  def executorRemoved(executorId: String): Unit =
    connected.asScala.foreach { case (name, peer) =>
      if (peer.executorId == executorId && connected.remove(name, peer)) worker.later(0)(coordinator.peerLost(name))
    }

  /** The live counts of each executor, by executor id. Leaves out executors that do not answer. Blocks. */
  def live(): Seq[(String, Seq[(String, Long)])] = connected.values.asScala.toSeq.flatMap { peer =>
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

  /** The exchange of the running Spark context; None in local mode, where all tasks are in this process. */
  def current: Option[DriverExchange] = running

  /** Whether a filter of this encoded size is sent to running scans. On a cluster, large ones are not. */
  def canPush(bytes: Long): Boolean = current.isEmpty || bytes <= MessageCodec.MostPushedBytes

  def start(sc: SparkContext): Unit = if (!sc.isLocal) running = Some(new DriverExchange(ExchangeCounters.instance))

  def stop(): Unit = {
    running.foreach(_.stop())
    running = None
  }

  /** Messages of a thousand executors in a second at their usual pace. Further messages are dropped. */
  private val MaxWaiting = 50000

  /** Messages have some hundred bytes, except for contributions to an order by long texts. */
  private val MaxWaitingBytes = 64L << 20
}

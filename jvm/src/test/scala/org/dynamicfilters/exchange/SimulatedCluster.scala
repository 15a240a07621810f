package org.dynamicfilters.exchange

import java.util.Random

import scala.collection.mutable

import org.dynamicfilters.state.{Executions, FilterSource}

/** Work that is done when a test says so. */
final class ManualSchedule extends Schedule {
  private val waiting = mutable.Queue.empty[() => Unit]
  override def later(millis: Long)(work: => Unit): Boolean = { waiting.enqueue(() => work); true }
  def runOne(): Boolean = waiting.nonEmpty && { waiting.dequeue()(); true }
  def runAll(): Unit = while (runOne()) ()
  def size: Int = waiting.size
}

/** How unreliable a network is: shares of messages, 0 to 1. */
final case class Trouble(lost: Double = 0, doubled: Double = 0, late: Double = 0)

/** A driver and executors with all of their real parts but Spark's RPC; messages are delivered by [[step]]. */
final class SimulatedCluster(
    executors: Int,
    filters: FilterSource,
    trouble: Trouble = Trouble(),
    seed: Long = 1
) {
  private val random = new Random(seed)
  private val inFlight = mutable.ArrayBuffer.empty[() => Unit]
  private var time = 0L
  val counters = new ExchangeCounters
  val driverSchedule = new ManualSchedule
  var bytesSent = 0L

  private def send(peer: String, message: Array[Byte]): Boolean = {
    post(message)(bytes => nodes(peer.toInt).link.received(bytes))
    true
  }

  /** The driver's. */
  val executions = new Executions(idleNanos = 1000000000L, () => time)
  val coordinator =
    new Coordinator(executions, filters, new Outbox(send, counters, () => time), driverSchedule)

  final class Node(val name: String) {
    val executions = new Executions(idleNanos = 1000000000L, () => time)
    val schedule = new ManualSchedule
    val counters = new ExchangeCounters
    val link = new ExecutorLink(
      executions,
      message => post(message)(bytes => coordinator.received(name, bytes)),
      schedule,
      counters,
      () => time
    )
    executions.connect(Some(link))
  }
  val nodes: IndexedSeq[Node] = (0 until executors).map(i => new Node(i.toString))

  private def post(message: Array[Byte])(deliver: Array[Byte] => Unit): Unit = {
    bytesSent += message.length
    val copies = if (random.nextDouble() < trouble.lost) 0 else if (random.nextDouble() < trouble.doubled) 2 else 1
    (0 until copies).foreach { _ =>
      val delivery = () => deliver(message)
      if (inFlight.nonEmpty && random.nextDouble() < trouble.late)
        inFlight.insert(random.nextInt(inFlight.size), delivery)
      else inFlight += delivery
    }
  }

  /** A little of what waits is done or delivered. */
  def step(): Unit = {
    time += 1000000
    nodes.foreach(_.schedule.runOne())
    driverSchedule.runOne()
    if (inFlight.nonEmpty) inFlight.remove(0)()
  }

  /** Until nothing waits; a link's sweep is always waiting, so so many steps. */
  def settle(): Unit = (0 until 50 * (executors + 1)).foreach(_ => step())
}

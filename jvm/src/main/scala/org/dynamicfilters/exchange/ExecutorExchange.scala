package org.dynamicfilters.exchange

import java.util.UUID
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong, AtomicReference}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.proto.ExchangeMessage
import org.dynamicfilters.state.{Executions, FilterName, SnapshotFilter, SnapshotsRef, TestHooks}

/** An executor's end of the exchange, one in a process. Started by the plugin, or by the first task with a filter if
  * only the session extension is configured.
  */
object ExecutorExchange extends Logging {
  private sealed trait State
  private object State {
    case object Stopped extends State
    case object Connecting extends State
    final case class Connected(wire: RpcAccess.DriverWire) extends State

    /** The driver has no endpoint, or does not answer. Only requests that need an answer connect again. */
    case object Failed extends State

    /** The process ends. */
    case object Ended extends State
  }

  private val counters = ExchangeCounters.instance
  private val hasWarned = new AtomicBoolean
  private val state = new AtomicReference[State](State.Stopped)
  private lazy val worker = new Worker("executor", MaxWaiting, counters)
  private val MaxWaiting = 10000

  /** Starts to connect, and returns at once. Idempotent. Does nothing in the driver's process. */
  def start(): Unit =
    if (state.get == State.Stopped && !RpcAccess.isDriver) connectFrom(State.Stopped)

  private def connectFrom(before: State): Unit = if (state.compareAndSet(before, State.Connecting)) {
    // Tasks may mark news before there is a connection. The worker sends them afterwards.
    Executions.instance.connect(Some(link))
    if (!worker.later(0)(connect())) state.compareAndSet(State.Connecting, State.Failed)
  }

  private lazy val link = new ExecutorLink(
    Executions.instance,
    message =>
      TestHooks.current.tells(message) { m =>
        state.get match {
          case State.Connected(wire) => wire.send(m)
          case other => throw new IllegalStateException(s"the exchange is $other")
        }
      },
    worker,
    counters,
    () => System.nanoTime()
  )

  private def connect(): Unit = {
    // Unique, because a process may have several class loaders with this class, each with its own filters.
    val peer = s"${RpcAccess.executorId}-${UUID.randomUUID()}"
    try {
      val wire = RpcAccess.connect(
        DriverExchange.EndpointName,
        peer,
        new RpcAccess.ExecutorReceiver {
          override def received(bytes: Array[Byte]): Unit = worker.later(0)(link.received(bytes))
          override def refused(): Unit = counters.add(ExchangeCounter.refusedMalformed)
          override def live(): Seq[(String, Long)] = LiveCounts.ofProcess ++ LiveCounts.ofMessages(counters)
        }
      )
      if (!state.compareAndSet(State.Connecting, State.Connected(wire))) wire.stop()
    } catch {
      case NonFatal(e) =>
        counters.add(ExchangeCounter.sendFailed)
        // Before a task can connect again.
        Executions.instance.connect(None)
        state.compareAndSet(State.Connecting, State.Failed)
        if (!hasWarned.getAndSet(true))
          logWarning(
            "Dynamic filters: this executor shares no filters with others, the driver's endpoint does not answer",
            e
          )
    }
  }

  /** Why a request has no answer of use. */
  private object NoAnswer extends Enumeration {

    /** The driver does not know the table any more, or has too much to do. */
    val Empty = Value

    /** No answer came, or one that cannot be decoded. */
    val Lost = Value
  }

  /** Asks the driver for the snapshot of a partition, and blocks the task until there is an answer or the time is over.
    *
    * An attempt that may go on without an answer asks for at most [[OptionalMillis]]. If its request was lost, such
    * attempts do not ask for [[SilentMillis]]. They do not repeat a request with an empty answer.
    *
    * @return None if there is no answer
    */
  def snapshot(request: ExchangeMessage, table: SnapshotsRef): Option[IndexedSeq[SnapshotFilter]] = {
    start()
    val isOptional = request.getSnapshotRequest.getIsFirst
    if (isOptional && System.nanoTime() < silentUntil.get) {
      counters.add(ExchangeCounter.snapshotsUnasked)
      None
    } else {
      val deadline = System.nanoTime() + (if (isOptional) OptionalMillis else RequiredMillis) * 1000000
      // Spark kills some tasks without an interrupt.
      def isKilled = Option(TaskContext.get()).exists(_.isInterrupted())
      @tailrec def ask(pause: Long): Either[NoAnswer.Value, IndexedSeq[SnapshotFilter]] =
        askOnce(request, table, deadline) match {
          case Left(why) if System.nanoTime() < deadline && !isKilled && mayAskAgain(why, isOptional) =>
            Thread.sleep(pause)
            // Thousands of tasks may ask a driver that has too much to do.
            ask(if (why == NoAnswer.Empty) math.min(2 * pause, LongestPauseMillis) else pause)
          case answer => answer
        }
      val answer = ask(FirstPauseMillis)
      answer.left.foreach { why =>
        counters.add(ExchangeCounter.snapshotsUnanswered)
        if (isOptional && why == NoAnswer.Lost) silentUntil.set(System.nanoTime() + SilentMillis * 1000000)
      }
      answer.toOption
    }
  }

  private def mayAskAgain(why: NoAnswer.Value, isOptional: Boolean): Boolean = why match {
    case NoAnswer.Empty => !isOptional
    case NoAnswer.Lost =>
      state.get match {
        case State.Ended => false
        case State.Failed if isOptional => false
        case State.Failed =>
          // Without an answer the job fails, so connects again.
          Thread.sleep(ReconnectMillis)
          connectFrom(State.Failed)
          true
        case _ => true
      }
  }

  private def askOnce(
      request: ExchangeMessage,
      table: SnapshotsRef,
      deadline: Long
  ): Either[NoAnswer.Value, IndexedSeq[SnapshotFilter]] =
    send(request, deadline).flatMap { m =>
      val decoded = MessageCodec.snapshot(m.getSnapshotReply, table, contents(request, _, deadline))
      decoded.toOption.toRight(NoAnswer.Lost)
    }

  /** The contents of a filter that a snapshot names. Asks the driver if they are not in this process. */
  private def contents(request: ExchangeMessage, name: FilterName, deadline: Long): Option[ValueFilter] =
    Executions.instance.contents(MessageCodec.execution(request), name) {
      val ask = MessageCodec.filterRequest(request.getExecutionId, request.getSnapshotRequest.getTable, name)
      send(ask, deadline) match {
        case Right(m) if m.hasJoinFilter && MessageCodec.name(m.getJoinFilter.getFilter) == name =>
          link.contents(m.getJoinFilter)
        case _ => None
      }
    }

  /** Sends a request, and blocks until the answer comes. */
  private def send(request: ExchangeMessage, deadline: Long): Either[NoAnswer.Value, ExchangeMessage] =
    try
      connection(deadline) match {
        case None => Left(NoAnswer.Lost)
        case Some(wire) =>
          val bytes = request.toByteArray
          val millis = math.min(OptionalMillis, math.max(1L, (deadline - System.nanoTime()) / 1000000))
          val answer = TestHooks.current.asks(bytes)(wire.ask(_, millis))
          counters.addSent(bytes)
          if (answer.isEmpty) Left(NoAnswer.Empty)
          else
            // Bounds of several TopKs by long texts may exceed the limit of other messages.
            MessageCodec.decode(answer, maxBytes = Int.MaxValue).left.map { refusal =>
              counters.add(refusal)
              NoAnswer.Lost
            }
      }
    catch { case NonFatal(_) => counters.add(ExchangeCounter.sendFailed); Left(NoAnswer.Lost) }

  /** The connection to the driver. Waits for it, because a task's first request may come earlier. */
  private def connection(deadline: Long): Option[RpcAccess.DriverWire] = {
    while (state.get == State.Connecting && System.nanoTime() < deadline) Thread.sleep(1)
    Option(state.get).collect { case State.Connected(wire) => wire }
  }

  /** An answer takes less than a millisecond, unless the driver collects garbage for seconds. */
  private val OptionalMillis = 5000L

  /** As long as Spark itself waits for a driver that does not answer. */
  private val RequiredMillis = 120000L
  private val FirstPauseMillis = 20L
  private val LongestPauseMillis = 1000L
  private val ReconnectMillis = 1000L
  private val SilentMillis = 30000L
  private val silentUntil = new AtomicLong(Long.MinValue)

  def stop(): Unit = {
    Executions.instance.connect(None)
    state.getAndSet(State.Ended) match {
      case State.Connected(wire) =>
        worker.stop()
        try wire.stop()
        catch { case NonFatal(_) => } // Spark has closed it already.
      case _ =>
    }
  }
}

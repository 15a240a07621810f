package org.dynamicfilters.exchange

import java.util.UUID
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong, AtomicReference}

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.RpcAccess
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state.{Executions, FilterName, ScheduleEntry, SnapshotsRef, TestHooks}

/** An executor's end of the exchange, one in a process. The plugin starts it with the executor, or else the first task that
  * carries a filter: where only the session extension is configured nobody else does.
  */
object ExecutorExchange extends Logging {
  private sealed trait State
  private object State {
    case object Stopped extends State
    case object Connecting extends State
    final case class Connected(wire: RpcAccess.DriverWire) extends State

    /** The driver has no such endpoint, or is not heard. Only who cannot do without it tries again. */
    case object Failed extends State

    /** For good: the process ends. */
    case object Ended extends State
  }

  private val counters = ExchangeCounters.instance
  private val isToldOf = new AtomicBoolean
  private val state = new AtomicReference[State](State.Stopped)
  private lazy val worker = new Worker("executor", MostWaiting, counters)
  private val MostWaiting = 10000

  /** Idempotent, and returns at once. In the driver's own process it does nothing: its tasks share everything already. */
  def start(): Unit =
    if (state.get == State.Stopped && !RpcAccess.isDriver) connectFrom(State.Stopped)

  private def connectFrom(before: State): Unit = if (state.compareAndSet(before, State.Connecting)) {
    // Before there is a connection tasks may mark what is new: the worker sends it after that.
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
    ExchangePace(),
    counters,
    () => System.nanoTime()
  )

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
          override def live(): String = LiveCounts.text(LiveCounts.ofProcess ++ LiveCounts.ofMessages(counters))
        }
      )
      if (!state.compareAndSet(State.Connecting, State.Connected(wire))) wire.stop()
    } catch {
      case NonFatal(e) =>
        counters.add(ExchangeCounter.sendFailed)
        state.compareAndSet(State.Connecting, State.Failed)
        Executions.instance.connect(None)
        if (!isToldOf.getAndSet(true))
          logWarning(
            "Dynamic filters: this executor shares nothing with others, the driver's endpoint does not answer",
            e
          )
    }
  }

  /** What became of a question. */
  private sealed trait Answer[+A]
  private object Answer {
    final case class Given[A](answer: A) extends Answer[A]

    /** The driver has nothing to say: it does not know the table any more, or has too much to do. */
    case object Nothing extends Answer[Nothing]
    case object Lost extends Answer[Nothing]
  }

  /** Asks the driver for the snapshots of a partition, again and again until there is an answer or the time is over. Blocks the
    * task: an attempt that may go on without an answer for [[AskMillis]] at most, and after that further ones do not ask for a
    * while. Such an attempt does not ask again where the driver has nothing to say.
    *
    * @return
    *   None if there is no answer
    */
  def snapshots(request: Message.SnapshotRequest, table: SnapshotsRef): Option[Vector[ScheduleEntry]] = {
    start()
    val mayDoWithout = request.isFirst || request.newFrom.isDefined
    if (mayDoWithout && System.nanoTime() < silentUntil.get) {
      counters.add(ExchangeCounter.snapshotsUnasked)
      None
    } else {
      val deadline = System.nanoTime() + (if (mayDoWithout) AskMillis else InsistMillis) * 1000000
      var pause = AgainMillis
      var answer = once(request, table, deadline)
      def mayAskAgain = answer match {
        case Answer.Given(_) => false
        case Answer.Nothing => !mayDoWithout
        case Answer.Lost => mayAnswer(mayDoWithout)
      }
      // A task that is killed need not be interrupted.
      def isWanted = Option(TaskContext.get()).forall(!_.isInterrupted())
      while (System.nanoTime() < deadline && isWanted && mayAskAgain) {
        Thread.sleep(pause)
        // Thousands of tasks may ask a driver that has too much to do.
        if (answer == Answer.Nothing) pause = math.min(2 * pause, MostAgainMillis)
        answer = once(request, table, deadline)
      }
      answer match {
        case Answer.Given(schedule) => Some(schedule)
        case other =>
          counters.add(ExchangeCounter.snapshotsUnanswered)
          if (mayDoWithout && other == Answer.Lost) silentUntil.set(System.nanoTime() + SilentMillis * 1000000)
          None
      }
    }
  }

  // Without an answer the job fails: then a connection that could not be made once is made anew.
  private def mayAnswer(mayDoWithout: Boolean): Boolean = state.get match {
    case State.Ended => false
    case State.Failed if mayDoWithout => false
    case State.Failed =>
      Thread.sleep(ReconnectMillis)
      connectFrom(State.Failed)
      true
    case _ => true
  }

  private def once(
      request: Message.SnapshotRequest,
      table: SnapshotsRef,
      deadline: Long
  ): Answer[Vector[ScheduleEntry]] =
    ask(request, deadline) match {
      case Answer.Given((m: Message.SnapshotReply, _)) if m.table == table.id =>
        SnapshotCodec.decode(m.schedule, table, contents(request, _, deadline)).fold(_ => Answer.Lost, Answer.Given(_))
      case Answer.Nothing => Answer.Nothing
      case _ => Answer.Lost
    }

  /** What a snapshot names: asked for if it has not come to this process yet. */
  private def contents(request: Message.SnapshotRequest, name: FilterName, deadline: Long): Option[ValueFilter] =
    Executions.instance.contents(request.execution, name) {
      ask(Message.FilterRequest(request.executionId, request.table, name), deadline) match {
        case Answer.Given((m: Message.JoinFilter, payload)) if m.filter == name =>
          LiveFilterMessage.read(m, payload, counters)
        case _ => None
      }
    }

  /** Asks once. */
  private def ask(question: Message, deadline: Long): Answer[(Message, Option[() => Array[Byte]])] =
    try
      connected(deadline) match {
        case None => Answer.Lost
        case Some(wire) =>
          val bytes = MessageCodec.encode(question)
          counters.add(ExchangeCounter.sent)
          counters.add(ExchangeCounter.sentBytes, bytes.length.toLong)
          val millis = math.min(AskMillis, math.max(1L, (deadline - System.nanoTime()) / 1000000))
          val (answer, payload) = TestHooks.current.asks(bytes)(wire.ask(_, millis))
          if (answer.isEmpty) Answer.Nothing
          else
            // Bounds of several TopKs by long texts may be more than other messages hold.
            MessageCodec.decode(answer, mostBytes = Int.MaxValue) match {
              case Right(m) => Answer.Given((m, payload))
              case Left(refusal) => counters.refused(refusal); Answer.Lost
            }
      }
    catch { case NonFatal(_) => counters.add(ExchangeCounter.sendFailed); Answer.Lost }

  /** A task's first question may come before the connection. */
  private def connected(deadline: Long): Option[RpcAccess.DriverWire] = {
    while (state.get == State.Connecting && System.nanoTime() < deadline) Thread.sleep(1)
    Option(state.get).collect { case State.Connected(wire) => wire }
  }

  /** An answer takes less than a millisecond; a driver that collects garbage may take seconds. */
  private val AskMillis = 5000L

  /** As long as Spark itself waits for a driver that does not answer. */
  private val InsistMillis = 120000L
  private val AgainMillis = 20L
  private val MostAgainMillis = 1000L
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

package org.dynamicfilters.testing

import java.time.Instant
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.{SparkContext, SparkEnv, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.{FaultsAccess, SqlMetricsAccess}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange._
import org.dynamicfilters.filter.FilterCodec

/** Injects faults into the exchange and into tasks: for tests only.
  *
  * There is none in a process unless the application was started with `spark.dynamicFilters.testing.faults.enabled=true`, which
  * no session can change. The places where it acts ask [[FaultInjection.current]] once when they are set up and are plain
  * objects without it. A session then chooses faults by `spark.dynamicFilters.testing.faults.spec`; Spark carries session
  * settings into tasks.
  *
  * It acts on
  *   - messages between executors and the driver, both ways, and the time that the driver takes for one;
  *   - in a process, what a task contributes to a TopK ([[ContributionSink]]), and on the driver what a build side's partition
  *     reports ([[KeyOffers]]);
  *   - tasks with filtered scans, when they complete ([[TaskFaults]]).
  */
final class FaultInjection private[testing] (ledger: FaultLedger, ownProcess: Boolean) {
  import FaultInjection._

  private val schedule = new Worker("faults", MostWaiting, ExchangeCounters.instance)

  private final class Execution(val faults: Faults) {
    private val ways = new ConcurrentHashMap[String, FaultyWay]()
    def way(name: String): FaultyWay = ways.computeIfAbsent(name, new FaultyWay(_, faults, schedule, ledger))
  }

  private val executions = new java.util.LinkedHashMap[Long, Option[Execution]]() {
    override def removeEldestEntry(e: java.util.Map.Entry[Long, Option[Execution]]): Boolean = size > MostExecutions
  }

  private val watched = ConcurrentHashMap.newKeySet[Long]()

  private def learn(executionId: Long, spec: String): Option[Execution] = executions.synchronized {
    executions.computeIfAbsent(
      executionId,
      _ => Option(spec).filter(_.nonEmpty).flatMap(FaultSpec.parse(_).toOption).map(s => new Execution(new Faults(s)))
    )
  }

  private def known(executionId: Long): Option[Execution] =
    executions.synchronized(Option(executions.get(executionId)).flatten)

  /** On the driver: an execution starts a scan. */
  def started(executionId: Long, conf: SQLConf): Unit = learn(executionId, Settings.get(conf, Settings.FaultsSpec))

  /** In a task, before its first row. */
  def taskStarts(context: TaskContext, executionId: Long): Unit =
    learn(executionId, context.getLocalProperty(Settings.FaultsSpec.key)).foreach { e =>
      // Once a task, however many scans it has.
      if (e.faults.spec.touchesTasks && watched.add(context.taskAttemptId())) {
        context.addTaskCompletionListener[Unit](c => watched.remove(c.taskAttemptId()))
        new TaskFaults(e.faults, executionId, ledger, ownProcess).watch(context)
      }
    }

  /** An executor's way to the driver. */
  def wire(plain: Wire): Wire = message =>
    executionOf(message).flatMap(known) match {
      case None => plain.send(message)
      case Some(e) =>
        e.way(s"from executor ${FaultsAccess.executorId}")
          .pass(
            () =>
              try plain.send(message)
              catch { case NonFatal(_) => ExchangeCounters.instance.add(ExchangeCounter.sendFailed) },
            Some(() => plain.send(Broken(message)))
          )
    }

  /** An executor's questions to the driver. One that is lost, or late, is not answered; a late one the driver hears. */
  def asks[A](plain: Array[Byte] => A): Array[Byte] => A = message =>
    executionOf(message).flatMap(known) match {
      case None => plain(message)
      case Some(e) =>
        var answer: Option[A] = None
        val asking = Thread.currentThread
        e.way(s"questions of executor ${FaultsAccess.executorId}")
          .pass(
            () => { val a = plain(message); if (Thread.currentThread eq asking) answer = Some(a) },
            Some(() => answer = Some(plain(Broken(message))))
          )
        answer.getOrElse(throw new java.util.concurrent.TimeoutException("an injected fault"))
    }

  /** The driver's ways to executors. */
  def peers(plain: Peers): Peers = new Peers {
    override def send(peer: String, message: Array[Byte], payload: Option[Payload]): Boolean =
      executionOf(message).flatMap(known) match {
        case None => plain.send(peer, message, payload)
        case Some(e) =>
          e.way(s"to executor ${peer.takeWhile(_ != '-')}")
            .pass(() => plain.send(peer, message, payload), Some(() => plain.send(peer, Broken(message), None)))
          true
      }
    override def payload(bytes: Array[Byte]): Payload = plain.payload(bytes)
  }

  /** The driver's work for one message. */
  def coordinator(message: Array[Byte])(work: => Unit): Unit = {
    executionOf(message).flatMap(known).map(_.faults.spec.coordinatorMillis).filter(_ > 0).foreach { millis =>
      ledger.note(FaultCounter.faultCoordinatorSlow)
      Thread.sleep(millis)
    }
    work
  }

  /** Where a task's best keys go. */
  def sink(executionId: Long, shared: SharedTopK): ContributionSink = known(executionId) match {
    case None => shared
    case Some(e) =>
      (partition, attempt, keys) => {
        if (e.faults.spec.trace && keys.nonEmpty)
          trace(executionId, "contributed", partition, keys(math.min(keys.length, shared.spec.limit) - 1))
        e.way(s"contributions of $partition").pass(() => shared.put(partition, attempt, keys), None)
      }
  }

  /** On the driver, where the keys of a build side's partitions go. */
  def offers(executionId: Long, conf: SQLConf, plain: KeyOffers): KeyOffers =
    learn(executionId, Settings.get(conf, Settings.FaultsSpec)).fold(plain) { e => (partition, encoded, outgrown) =>
      e.way(s"keys of $partition")
        .pass(
          () => plain.offer(partition, encoded, outgrown),
          Some(() => plain.offer(partition, Broken.Bytes, outgrown))
        )
    }

  /** An executor took over a bound of the cluster's. */
  def adopted(executionId: Long, bound: TopKBound): Unit =
    if (known(executionId).exists(_.faults.spec.trace)) trace(executionId, "adopted", bound.partition, bound.key)

  private def trace(executionId: Long, what: String, partition: Int, key: AnyRef): Unit = {
    val now = Instant.now()
    val micros = now.getEpochSecond * 1000000 + now.getNano / 1000
    ledger.trace(TraceEvent(FaultsAccess.executorId, executionId, what, partition, String.valueOf(key), micros))
  }
}

object FaultInjection extends Logging {
  private val EndpointName = "dynamic-filters-faults"
  private val MostExecutions = 1000
  private val MostWaiting = 100000

  @volatile private var running: Option[FaultInjection] = None
  @volatile private var driver: Option[DriverLedger] = None

  /** None unless the application was started for tests. */
  def current: Option[FaultInjection] = running

  /** On the driver, when it starts. */
  def startDriver(sc: SparkContext): Unit =
    if (SqlMetricsAccess.confOf(sc).getBoolean(Settings.FaultsEnabled.key, defaultValue = false)) {
      val ledger = new DriverLedger
      if (!sc.isLocal)
        FaultsAccess.serve(
          EndpointName,
          new FaultsAccess.LedgerReceiver {
            override def note(counter: Int): Unit = ledger.note(FaultCounter(counter))
            override def claim(counter: Int, executionId: Long, most: Int): Boolean =
              ledger.claim(FaultCounter(counter), executionId, most)
            override def trace(event: String): Unit = TraceEvent.read(event).foreach(ledger.trace)
          }
        )
      sc.addSparkListener(new FaultListener(ledger))
      driver = Some(ledger)
      running = Some(new FaultInjection(ledger, ownProcess = !sc.isLocal))
    } else {
      driver = None
      running = None
    }

  /** On the driver, when the application has ended. */
  def stop(): Unit = {
    running.foreach(_.schedule.stop())
    running = None
    driver = None
  }

  /** On an executor, when it starts. */
  def startExecutor(): Unit =
    if (SparkEnv.get.conf.getBoolean(Settings.FaultsEnabled.key, defaultValue = false))
      try running = Some(new FaultInjection(new RemoteLedger(FaultsAccess.connect(EndpointName)), ownProcess = true))
      catch { case NonFatal(e) => logWarning("Dynamic filters: this executor injects no faults", e) }

  /** What was injected; empty where nothing can be. On the driver. */
  def counters: Seq[(String, Long)] = driver.fold(Seq.empty[(String, Long)])(_.counters.all)

  /** On the driver. */
  def traced: Seq[TraceEvent] = driver.fold(Seq.empty[TraceEvent])(_.traced)

  /** The session setting's text as it is, if faults can be injected and it names some; what is wrong otherwise. */
  def checked(spec: String): String =
    if (spec.trim.isEmpty) spec
    else if (running.isEmpty)
      throw new IllegalArgumentException(
        s"${Settings.FaultsSpec.key}: faults can be injected only where the Spark application was started with " +
          s"${Settings.FaultsEnabled.key}=true, which is for tests"
      )
    else
      FaultSpec.parse(spec) match {
        case Right(_) => spec
        case Left(why) => throw new IllegalArgumentException(s"${Settings.FaultsSpec.key}: $why")
      }

  private def executionOf(message: Array[Byte]): Option[Long] =
    MessageCodec.decode(message).toOption.map(_.executionId)
}

/** Bytes that no side understands. */
private[testing] object Broken {

  /** A field of number zero, which there is not. */
  val Bytes: Array[Byte] = Array[Byte](0)

  private val VersionField = 1

  /** In place of a message: malformed, of another version, too long, or a filter inside that is none. */
  def apply(message: Array[Byte]): Array[Byte] = (message.length + message.lastOption.fold(0)(_ & 0xff)) % 8 match {
    case 0 => new Array[Byte](MessageCodec.MaxBytes + 1)
    // A later value of a field replaces the one before.
    case 1 | 2 | 3 => message ++ Array[Byte]((VersionField << 3).toByte, 99)
    case _ =>
      MessageCodec.decode(message) match {
        case Right(m: Message.JoinFilter) if FilterCodec.decode(Bytes).isLeft =>
          MessageCodec.encode(m.copy(encoded = Some(Bytes)))
        case _ => message ++ Bytes
      }
  }
}

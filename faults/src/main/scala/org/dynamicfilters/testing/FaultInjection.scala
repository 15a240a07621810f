package org.dynamicfilters.testing

import java.time.Instant
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.dynamicfilters.FaultsAccess
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.exchange.{ExchangeCounter, ExchangeCounters, MessageCodec, Worker}
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.state.{ContributionSink, KeyOffers, TestHooks, TopKBound, TopKState}

/** Injects faults into the exchange and into tasks: for tests only.
  *
  * Installed if the application was started with `spark.dynamicFilters.testing.faults.enabled=true` and this jar is on its
  * class path. No session can change that. A session then chooses faults by `spark.dynamicFilters.testing.faults.spec`;
  * Spark carries session settings into tasks.
  *
  * It acts on
  *   - messages between executors and the driver, both ways, and the time that the driver takes for one;
  *   - in a process, what a task contributes to a TopK ([[ContributionSink]]), and on the driver what a build side's partition
  *     reports ([[KeyOffers]]);
  *   - tasks with filtered scans, when they complete ([[TaskFaults]]).
  */
private[testing] class FaultInjection(ledger: FaultLedger, ownProcess: Boolean) extends TestHooks {
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

  override def scanStarts(executionId: Long, conf: SQLConf): Unit = learn(executionId, FaultSettings.Spec.read(conf))

  override def taskStarts(context: TaskContext, executionId: Long): Unit =
    learn(executionId, context.getLocalProperty(FaultSettings.Spec.key)).foreach { e =>
      // Once a task, however many scans it has.
      if (e.faults.spec.touchesTasks && watched.add(context.taskAttemptId())) {
        context.addTaskCompletionListener[Unit](c => watched.remove(c.taskAttemptId()))
        new TaskFaults(e.faults, executionId, ledger, ownProcess).watch(context)
      }
    }

  override def tells(message: Array[Byte])(send: Array[Byte] => Unit): Unit =
    executionOf(message).flatMap(known) match {
      case None => send(message)
      case Some(e) =>
        e.way(s"from executor ${FaultsAccess.executorId}")
          .pass(
            () =>
              try send(message)
              catch { case NonFatal(_) => ExchangeCounters.instance.add(ExchangeCounter.sendFailed) },
            Some(() => send(Broken(message)))
          )
    }

  /** One that is lost, or late, is not answered; a late one the driver hears. */
  override def asks[A](message: Array[Byte])(ask: Array[Byte] => A): A =
    executionOf(message).flatMap(known) match {
      case None => ask(message)
      case Some(e) =>
        var answer: Option[A] = None
        val asking = Thread.currentThread
        e.way(s"questions of executor ${FaultsAccess.executorId}")
          .pass(
            () => { val a = ask(message); if (Thread.currentThread eq asking) answer = Some(a) },
            Some(() => answer = Some(ask(Broken(message))))
          )
        answer.getOrElse(throw new java.util.concurrent.TimeoutException("an injected fault"))
    }

  override def pushes(peer: String, message: Array[Byte])(send: => Boolean)(instead: Array[Byte] => Boolean): Boolean =
    executionOf(message).flatMap(known) match {
      case None => send
      case Some(e) =>
        e.way(s"to executor ${peer.takeWhile(_ != '-')}").pass(() => send, Some(() => instead(Broken(message))))
        true
    }

  override def handles(message: Array[Byte])(work: => Unit): Unit = {
    executionOf(message).flatMap(known).map(_.faults.spec.coordinatorMillis).filter(_ > 0).foreach { millis =>
      ledger.note(FaultCounter.faultCoordinatorSlow)
      Thread.sleep(millis)
    }
    work
  }

  override def contributions(executionId: Long, shared: TopKState): ContributionSink = known(executionId) match {
    case None => shared
    case Some(e) =>
      (partition, attempt, keys) => {
        if (e.faults.spec.trace && keys.nonEmpty)
          trace(executionId, "contributed", partition, keys(math.min(keys.length, shared.spec.limit) - 1))
        e.way(s"contributions of $partition").pass(() => shared.put(partition, attempt, keys), None)
      }
  }

  override def keys(executionId: Long, conf: SQLConf, to: KeyOffers): KeyOffers =
    learn(executionId, FaultSettings.Spec.read(conf)).fold(to) { e => (partition, encoded, outgrown) =>
      e.way(s"keys of $partition")
        .pass(
          () => to.offer(partition, encoded, outgrown),
          Some(() => to.offer(partition, Broken.Bytes, outgrown))
        )
    }

  override def adopted(executionId: Long, bound: TopKBound): Unit =
    if (known(executionId).exists(_.faults.spec.trace)) trace(executionId, "adopted", bound.partition, bound.key)

  override def stop(): Unit = schedule.stop()

  private def trace(executionId: Long, what: String, partition: Int, key: AnyRef): Unit = {
    val now = Instant.now()
    val micros = now.getEpochSecond * 1000000 + now.getNano / 1000
    ledger.trace(TraceEvent(FaultsAccess.executorId, executionId, what, partition, String.valueOf(key), micros))
  }
}

private[testing] object FaultInjection {
  val EndpointName = "dynamic-filters-faults"
  private val MostExecutions = 1000
  private val MostWaiting = 100000

  private def executionOf(message: Array[Byte]): Option[Long] =
    MessageCodec.decode(message).toOption.map(_.getExecutionId)
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
        case Right(m) if m.hasJoinFilter && FilterCodec.decode(Bytes).isLeft =>
          MessageCodec.contents(m.getExecutionId, MessageCodec.name(m.getJoinFilter.getFilter), Bytes).toByteArray
        case _ => message ++ Bytes
      }
  }
}

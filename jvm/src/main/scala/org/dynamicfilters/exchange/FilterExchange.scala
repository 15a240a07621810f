package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

/** Where producers leave what they learned and scans find it, by SQL execution.
  *
  * This is the seam for the network: [[LocalExchange]] serves one process.
  */
trait FilterExchange {

  /** The shared bound of a TopK, made by whoever asks first.
    *
    * @param run
    *   see [[TopKRef.nextRun]]
    * @return
    *   None if the execution has ended: then rows pass
    */
  def topK(executionId: Long, filterId: Long, run: Long, spec: TopKSpec): Option[SharedTopK]

  /** What the tasks of an execution in this process share beside filters, made by whoever asks first.
    *
    * @return
    *   None if the execution has ended
    */
  def shared[A <: AnyRef](executionId: Long, key: AnyRef)(make: => A): Option[A]

  /** What the driver knows of a join's filter; None in any other process, and before the build side has started. */
  def joinFilter(executionId: Long, filterId: Long): Option[JoinFilterState]

  /** Makes a join's filter known to tasks in this process. */
  def announce(executionId: Long, state: JoinFilterState): Unit

  /** A task works for this execution; paired with [[leave]]. */
  def enter(executionId: Long): Unit
  def leave(executionId: Long): Unit

  /** The execution ended, well or not. Its filters are dropped now; tasks that still run see no filter. */
  def close(executionId: Long): Unit

  /** Executions whose filters are held. */
  def liveExecutions: Int
}

/** State of one execution's filters. */
sealed trait ExecutionState
object ExecutionState {
  case object Active extends ExecutionState

  /** Ended while tasks of it still run. */
  case object Closing extends ExecutionState
  case object Closed extends ExecutionState
}

/** Filters of the executions in this process.
  *
  * The driver closes an execution when Spark says that it ended. An executor process does not hear that, so entries that no
  * task has used for [[idleNanos]] are swept whenever a new execution arrives.
  */
final class LocalExchange(idleNanos: Long, clock: () => Long) extends FilterExchange {
  import ExecutionState._

  private final class Execution {
    val filters = new ConcurrentHashMap[(Long, Long), SharedTopK]()
    val attachments = new ConcurrentHashMap[AnyRef, AnyRef]()
    val joins = new ConcurrentHashMap[Long, JoinFilterState]()
    val tasks = new AtomicLong
    @volatile var state: ExecutionState = Active
    @volatile var lastUsed: Long = clock()
  }

  private val executions = new ConcurrentHashMap[Long, Execution]()
  // Remembers ended executions, so that a task that outlives its query does not open a new entry that nobody closes.
  private val ended = new java.util.LinkedHashMap[Long, java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[Long, java.lang.Boolean]): Boolean =
      size > LocalExchange.EndedRemembered
  }

  private def hasEnded(id: Long): Boolean = ended.synchronized(ended.containsKey(id))

  private def execution(id: Long): Option[Execution] = {
    val known = executions.get(id)
    val e =
      if (known != null) known
      else if (hasEnded(id)) return None
      else {
        sweep()
        val made = executions.computeIfAbsent(id, _ => new Execution)
        // It may have ended in between; then nobody else would drop the entry.
        if (hasEnded(id)) drop(id, made)
        made
      }
    e.lastUsed = clock()
    if (e.state == Active) Some(e) else None
  }

  override def topK(executionId: Long, filterId: Long, run: Long, spec: TopKSpec): Option[SharedTopK] =
    execution(executionId).map(_.filters.computeIfAbsent((filterId, run), _ => new SharedTopK(spec)))

  override def shared[A <: AnyRef](executionId: Long, key: AnyRef)(make: => A): Option[A] =
    execution(executionId).map(_.attachments.computeIfAbsent(key, _ => make).asInstanceOf[A])

  override def joinFilter(executionId: Long, filterId: Long): Option[JoinFilterState] =
    Option(executions.get(executionId)).flatMap(e => Option(e.joins.get(filterId)))

  override def announce(executionId: Long, state: JoinFilterState): Unit =
    execution(executionId).foreach(_.joins.put(state.filterId, state))

  override def enter(executionId: Long): Unit = execution(executionId).foreach(_.tasks.incrementAndGet())

  override def leave(executionId: Long): Unit = {
    val e = executions.get(executionId)
    if (e != null) {
      e.lastUsed = clock()
      if (e.tasks.decrementAndGet() <= 0 && e.state == Closing) drop(executionId, e)
    }
  }

  override def close(executionId: Long): Unit = {
    ended.synchronized(ended.put(executionId, true))
    val e = executions.get(executionId)
    if (e != null) {
      e.state = Closing
      clear(e)
      if (e.tasks.get <= 0) drop(executionId, e)
    }
  }

  private def clear(e: Execution): Unit = {
    e.filters.clear()
    e.attachments.clear()
    e.joins.clear()
  }

  private def drop(id: Long, e: Execution): Unit = {
    e.state = Closed
    clear(e)
    executions.remove(id, e)
  }

  private def sweep(): Unit = {
    val now = clock()
    executions.asScala.foreach { case (id, e) => if (e.tasks.get <= 0 && now - e.lastUsed > idleNanos) drop(id, e) }
  }

  override def liveExecutions: Int = executions.size
}

object LocalExchange {
  private val EndedRemembered = 10000

  /** The exchange of this process. Idle executions are kept a minute: long enough for the next wave of tasks. */
  val instance: FilterExchange = new LocalExchange(60L * 1000 * 1000 * 1000, () => System.nanoTime())
}

package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.dynamicfilters.filter.ValueFilter

/** State of one execution's filters. */
sealed trait ExecutionState
object ExecutionState {
  case object Active extends ExecutionState

  /** Ended while tasks of it still run. */
  case object Closing extends ExecutionState
  case object Closed extends ExecutionState
}

/** A filter that the driver was asked for: a join's, or a user's that is updated while scans run. Null until it comes. */
final class LateFilter {
  @volatile private var newest: ValueFilter = _
  private var generation = -1L

  def filter: ValueFilter = newest

  /** Takes a filter, unless a newer one has come before. */
  def offer(generation: Long, filter: ValueFilter): Unit = synchronized {
    if (generation > this.generation) {
      this.generation = generation
      newest = filter
    }
  }
}

/** Filters of the executions in this process.
  *
  * The driver closes an execution when Spark says that it ended, and tells executors. They may miss it, so entries that no
  * task has used for [[idleNanos]] are swept.
  */
final class LocalExchange(idleNanos: Long, clock: () => Long) {
  import ExecutionState._

  private final class Execution {
    val filters = new ConcurrentHashMap[FilterName, SharedTopK]()
    val attachments = new ConcurrentHashMap[AnyRef, AnyRef]()
    val joins = new ConcurrentHashMap[Long, JoinFilterState]()
    val late = new ConcurrentHashMap[Long, LateFilter]()
    val tasks = new AtomicLong
    @volatile var state: ExecutionState = Active
    @volatile var lastUsed: Long = clock()
  }

  private val executions = new ConcurrentHashMap[Long, Execution]()
  // So that a task that outlives its query does not open a new entry that nobody closes.
  private val ended = new RecentIds()
  @volatile private var link: Option[ClusterLink] = None

  /** From now on what is new here is shared with the cluster; None: no longer. */
  def connect(to: Option[ClusterLink]): Unit = link = to

  private def hasEnded(id: Long): Boolean = ended.synchronized(ended.contains(id))

  private def execution(id: Long): Option[Execution] = {
    val known = executions.get(id)
    val e =
      if (known != null) known
      else if (hasEnded(id)) return None
      else {
        sweep()
        var isNew = false
        val made = executions.computeIfAbsent(id, _ => { isNew = true; new Execution })
        if (isNew) link.foreach(_.joined(id))
        // It may have ended in between; then nobody else would drop the entry.
        if (hasEnded(id)) drop(id, made)
        made
      }
    e.lastUsed = clock()
    if (e.state == Active) Some(e) else None
  }

  /** The shared bound of a TopK, made by whoever asks first.
    *
    * @param run
    *   see [[TopKRef.nextRun]]
    * @param shares
    *   whether the whole cluster shares it, not only this process
    * @return
    *   None if the execution has ended: then rows pass
    */
  def topK(
      executionId: Long,
      filterId: Long,
      run: Long,
      spec: TopKSpec,
      shares: Boolean = true
  ): Option[SharedTopK] = execution(executionId).map { e =>
    e.filters.computeIfAbsent(
      FilterName(filterId, run),
      name => link.filter(_ => shares).fold(new SharedTopK(spec))(_.topK(executionId, name, spec))
    )
  }

  /** The bounds of an execution as this process knows them. */
  def bounds(executionId: Long): Seq[TopKBound] =
    Option(executions.get(executionId)).fold(Seq.empty[TopKBound])(_.filters.values.asScala.map(_.bound).toSeq)

  /** A TopK that tasks here have asked for. */
  def known(executionId: Long, name: FilterName): Option[SharedTopK] =
    Option(executions.get(executionId)).flatMap(e => Option(e.filters.get(name)))

  /** A join's filter that was not complete when its scan started, or a user's that its scan follows, if the driver has sent one
    * since; None if it has not, or never will. Asks the driver for it.
    */
  def lateFilter(executionId: Long, filterId: Long): Option[ValueFilter] = link.flatMap { l =>
    execution(executionId).flatMap { e =>
      val waiting = e.late.get(filterId)
      if (waiting != null) Option(waiting.filter)
      else {
        if (e.late.putIfAbsent(filterId, new LateFilter) == null) l.subscribe(executionId, FilterName(filterId, 0))
        None
      }
    }
  }

  /** A join's filter that tasks here have asked for. */
  def late(executionId: Long, filterId: Long): Option[LateFilter] =
    Option(executions.get(executionId)).flatMap(e => Option(e.late.get(filterId)))

  /** What the tasks of an execution in this process share beside filters, made by whoever asks first.
    *
    * @return
    *   None if the execution has ended
    */
  def shared[A <: AnyRef](executionId: Long, key: AnyRef)(make: => A): Option[A] =
    execution(executionId).map(_.attachments.computeIfAbsent(key, _ => make).asInstanceOf[A])

  /** What the driver knows of a join's filter; None in any other process, and before the build side has started. */
  def joinFilter(executionId: Long, filterId: Long): Option[JoinFilterState] =
    Option(executions.get(executionId)).flatMap(e => Option(e.joins.get(filterId)))

  /** Makes a join's filter known to tasks in this process. */
  def announce(executionId: Long, state: JoinFilterState): Unit =
    execution(executionId).foreach(_.joins.put(state.filterId, state))

  /** A task works for this execution; paired with [[leave]]. */
  def enter(executionId: Long): Unit = execution(executionId).foreach(_.tasks.incrementAndGet())

  def leave(executionId: Long): Unit = {
    val e = executions.get(executionId)
    if (e != null) {
      e.lastUsed = clock()
      if (e.tasks.decrementAndGet() <= 0 && e.state == Closing) drop(executionId, e)
    }
  }

  /** The execution ended, well or not. Its filters are dropped now; tasks that still run see no filter. */
  def close(executionId: Long): Unit = {
    ended.synchronized(ended.add(executionId))
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
    e.late.clear()
  }

  private def drop(id: Long, e: Execution): Unit = {
    e.state = Closed
    clear(e)
    executions.remove(id, e)
  }

  /** Drops executions that no task has used for a while. */
  def sweep(): Unit = {
    val now = clock()
    executions.asScala.foreach { case (id, e) => if (e.tasks.get <= 0 && now - e.lastUsed > idleNanos) drop(id, e) }
  }

  /** Executions whose filters are held. */
  def liveExecutions: Int = executions.size

  /** Drops everything: the application has ended. */
  def clear(): Unit = executions.keySet.asScala.foreach(close(_))
}

object LocalExchange {

  /** The exchange of this process. Idle executions are kept a minute: long enough for the next wave of tasks. */
  val instance: LocalExchange = new LocalExchange(60L * 1000 * 1000 * 1000, () => System.nanoTime())
}

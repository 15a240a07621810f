package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SQLExecution
import org.dynamicfilters.filter.{SoftCached, ValueFilter}

/** The executions of this process, and the memory of those that have ended: nothing opens again for them.
  *
  * The driver closes an execution when Spark says that it ended, and tells executors. Either may miss that (Spark drops events
  * when listeners are slow), so what nothing has used for `idleNanos` is swept.
  *
  * @param clock
  *   nanoseconds
  * @param isRunning
  *   whether an execution is known to run: then it is not swept, however old
  */
final class Executions(idleNanos: Long, clock: () => Long, isRunning: Long => Boolean = _ => false) extends Logging {
  import Execution._

  private val executions = new ConcurrentHashMap[Long, Execution]()
  private val ended = new RecentIds()
  @volatile private var link: Option[ClusterLink] = None

  /** From now on what is new here is shared with the cluster; None: no longer. */
  def connect(to: Option[ClusterLink]): Unit = link = to

  def hasEnded(id: Long): Boolean = ended.synchronized(ended.contains(id))

  /** The execution, made by whoever asks first.
    *
    * @return
    *   None if it has ended
    */
  def open(id: Long): Option[Execution] = {
    val known = executions.get(id)
    val e =
      if (known != null) known
      else if (hasEnded(id)) return None
      else {
        sweep()
        var isNew = false
        val made = executions.computeIfAbsent(id, _ => { isNew = true; new Execution(id, link, clock()) })
        if (isNew) link.foreach(_.joined(id))
        // It may have ended in between; then nobody else would drop the entry.
        if (hasEnded(id)) drop(made)
        made
      }
    e.lastUsed = clock()
    Option.when(e.isOpen)(e)
  }

  /** Whether anything is held, or None. */
  def find(id: Long): Option[Execution] = Option(executions.get(id))

  /** See [[Holder.attach]]. */
  def attach[A <: AnyRef](id: Long, key: AnyRef)(make: => A): Option[A] = open(id).flatMap(_.attach(key)(make))

  /** What is held by this key already. */
  def find[A <: AnyRef](id: Long, key: AnyRef): Option[A] = find(id).flatMap(_.find[A](key))

  /** What the driver knows of a join's filter; None in any other process, and before the build side has started. */
  def joinFilter(id: Long, filterId: Long): Option[JoinState] = find[JoinState](id, Announced(filterId))

  /** The contents of a filter, made once in an execution, whichever way they come.
    *
    * @param id
    *   None where there is no execution: then nothing keeps them
    */
  def contents(id: Option[Long], name: FilterName)(make: => Option[ValueFilter]): Option[ValueFilter] =
    id.flatMap(attach(_, Contents(name))(new SoftCached[ValueFilter])).fold(make)(_.value(make))

  /** See [[Execution.lateFilter]]; those that tasks here have asked for. */
  def late(id: Long, filterId: Long): Option[LateFilter] = find[LateFilter](id, AskedFor(filterId))

  /** A TopK that tasks here have asked for. */
  def topK(id: Long, name: FilterName): Option[TopKState] = find[TopKState](id, name)

  /** All of a class that executions hold now. */
  def all[A <: AnyRef: ClassTag]: Iterator[A] = executions.values.asScala.iterator.flatMap(_.all[A])

  /** Ends what is held by this key, whichever execution has it. */
  def detach[A <: AnyRef](key: AnyRef): Option[A] =
    executions.values.asScala.iterator.flatMap(_.detach[A](key)).nextOption()

  /** A task works for this execution; paired with [[leave]]. */
  def enter(id: Long): Unit = open(id).foreach(_.tasks.incrementAndGet())

  def leave(id: Long): Unit = find(id).foreach { e =>
    e.lastUsed = clock()
    if (e.tasks.decrementAndGet() <= 0 && !e.isOpen) drop(e)
  }

  /** The execution ended, well or not; all that is held for it goes now. Tasks that still run see no filter. Idempotent. */
  def close(id: Long): Unit = {
    ended.synchronized(ended.add(id))
    find(id).foreach { e =>
      closeQuietly(e)
      if (e.tasks.get <= 0) drop(e)
    }
  }

  private def drop(e: Execution): Unit = if (executions.remove(e.id, e)) closeQuietly(e)

  private def closeQuietly(e: Execution): Unit =
    try e.close()
    catch { case NonFatal(x) => logWarning(s"Dynamic filters: execution ${e.id} was closed with an error", x) }

  /** Drops what nobody has used for a while. */
  def sweep(): Unit = {
    val now = clock()
    executions.values.forEach { e =>
      if (e.tasks.get <= 0 && now - e.lastUsed > idleNanos && !isRunning(e.id)) drop(e)
    }
  }

  /** Executions for which anything is held. */
  def live: Int = executions.size

  /** The application has ended. */
  def clear(): Unit = executions.keySet.asScala.foreach(close)
}

object Executions {

  /** Those of this process. Idle ones are kept a minute on executors: long enough for the next wave of tasks. Only the driver
    * knows which ones run.
    */
  val instance: Executions =
    new Executions(60L * 1000 * 1000 * 1000, () => System.nanoTime(), SQLExecution.getQueryExecution(_) != null)
}

package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SQLExecution
import org.dynamicfilters.filter.{SoftCached, ValueFilter}

/** The executions of this process (contract 6). Remembers the ids of ended ones, so that nothing opens them again.
  *
  * The driver closes an execution at Spark's end event, and tells executors. Both may miss that (Spark drops events
  * when listeners are slow), so executions without use for `idleNanos` are swept.
  *
  * @param isRunning whether an execution is known to run, and must not be swept
  */
final class Executions(idleNanos: Long, clock: () => Long, isRunning: Long => Boolean = _ => false) extends Logging {
  import Execution._

  private val executions = new ConcurrentHashMap[Long, Execution]()
  private val ended = new RecentIds()
  @volatile private var link: Option[ClusterLink] = None

  /** Sets the link by which new executions are shared with the cluster. */
  def connect(to: Option[ClusterLink]): Unit = link = to

  def hasEnded(id: Long): Boolean = ended.synchronized(ended.contains(id))

  /** The execution, made at the first call; None if it has ended. */
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
        // It may have ended since the check; then nothing else drops the entry.
        if (hasEnded(id)) drop(made)
        made
      }
    e.lastUsed = clock()
    Option.when(e.isOpen)(e)
  }

  /** The execution, if there is one. */
  def find(id: Long): Option[Execution] = Option(executions.get(id))

  /** See [[Holder.attach]]. */
  def attach[A <: AnyRef](id: Long, key: AnyRef)(make: => A): Option[A] = open(id).flatMap(_.attach(key)(make))

  /** The object that the execution holds under the key, if any. */
  def find[A <: AnyRef](id: Long, key: AnyRef): Option[A] = find(id).flatMap(_.find[A](key))

  /** The contents of a filter, decoded once in an execution, whether they come with a task or from the driver.
    *
    * @param id None if there is no execution: then they are not kept
    */
  def contents(id: Option[Long], name: FilterName)(make: => Option[ValueFilter]): Option[ValueFilter] =
    id.flatMap(attach(_, Contents(name))(new SoftCached[ValueFilter])).fold(make)(_.value(make))

  /** The subscription of tasks here to a filter, see [[Execution.lateFilter]]. */
  def late(id: Long, filterId: Long): Option[SubscribedFilter] = find[SubscribedFilter](id, AskedFor(filterId))

  /** A TopK that tasks here have asked for. */
  def topK(id: Long, name: FilterName): Option[TopKState] = find[TopKState](id, name)

  /** All objects of a class that executions hold. */
  def all[A <: AnyRef: ClassTag]: Iterator[A] = executions.values.asScala.iterator.flatMap(_.all[A])

  /** Removes the object under a key from whichever execution holds it. */
  def detach[A <: AnyRef](key: AnyRef): Option[A] =
    executions.values.asScala.iterator.flatMap(_.detach[A](key)).nextOption()

  /** A task works for this execution; paired with [[leave]]. */
  def enter(id: Long): Unit = open(id).foreach(_.tasks.incrementAndGet())

  def leave(id: Long): Unit = find(id).foreach { e =>
    e.lastUsed = clock()
    if (e.tasks.decrementAndGet() <= 0 && !e.isOpen) drop(e)
  }

  /** Frees all that an execution holds, because it ended. Tasks that still run see no filter. Idempotent. */
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

  /** Drops executions without tasks that were not used for `idleNanos`. */
  def sweep(): Unit = {
    val now = clock()
    executions.values.forEach { e =>
      if (e.tasks.get <= 0 && now - e.lastUsed > idleNanos && !isRunning(e.id)) drop(e)
    }
  }

  /** Number of open executions. */
  def live: Int = executions.size

  /** The application has ended. */
  def clear(): Unit = executions.keySet.asScala.foreach(close)
}

object Executions {

  /** The executions of this process. Executors keep idle ones for a minute, long enough for the next wave of tasks; the
    * driver knows which ones run.
    */
  val instance: Executions =
    new Executions(60L * 1000 * 1000 * 1000, () => System.nanoTime(), SQLExecution.getQueryExecution(_) != null)
}

/** A set of the newest `most` ids. Not thread-safe. */
final class RecentIds(most: Int = 10000) {
  private val ids = new java.util.LinkedHashMap[Long, java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[Long, java.lang.Boolean]): Boolean = size > most
  }
  def add(id: Long): Unit = ids.put(id, true)
  def contains(id: Long): Boolean = ids.containsKey(id)
}

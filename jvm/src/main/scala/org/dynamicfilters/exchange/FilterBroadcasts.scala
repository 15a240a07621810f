package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.dynamicfilters.SqlMetricsAccess
import org.dynamicfilters.state.EndedExecutions

/** Filters that travel as Spark broadcasts. On the driver.
  *
  * Those that go with a scan belong to its plan, which may be executed again: when an execution ends executors drop their
  * copies, and the driver its own when the plan is gone (Spark's cleaner). Those that are sent to running scans
  * belong to the execution, and are destroyed with it.
  */
object FilterBroadcasts {
  private val byExecution = new ConcurrentHashMap[Long, java.util.Set[Broadcast[Array[Byte]]]]()
  // As in RunningStages.
  private val over = new EndedExecutions
  // What was made and may still have blocks somewhere.
  private val ids = ConcurrentHashMap.newKeySet[Long]()

  /** A filter that goes with a scan of this execution.
    *
    * @param executionId
    *   None where there is none
    */
  def ofScan(sc: SparkContext, executionId: Option[Long], bytes: Array[Byte]): Broadcast[Array[Byte]] = {
    val b = ofExecution(sc, bytes)
    executionId.foreach { id =>
      byExecution.computeIfAbsent(id, _ => ConcurrentHashMap.newKeySet[Broadcast[Array[Byte]]]()).add(b)
      if (over.contains(id)) drop(id)
    }
    b
  }

  /** A filter for scans that run; whoever makes it destroys it. */
  def ofExecution(sc: SparkContext, bytes: Array[Byte]): Broadcast[Array[Byte]] = {
    val b = sc.broadcast(bytes)
    ids.add(b.id)
    b
  }

  def executionEnded(id: Long): Unit = {
    over.add(id)
    drop(id)
  }

  private def drop(id: Long): Unit = {
    val made = byExecution.remove(id)
    if (made != null) made.asScala.foreach(quietly(_)(_.unpersist()))
  }

  /** For those of [[ofExecution]]. Who is fetching it just now fails to, and goes on without: its query has ended. */
  def destroy(b: Broadcast[Array[Byte]]): Unit = quietly(b)(_.destroy())

  // The context may be stopped.
  private def quietly(b: Broadcast[Array[Byte]])(f: Broadcast[Array[Byte]] => Unit): Unit =
    try f(b)
    catch { case NonFatal(_) => }

  /** Blocks of filters that Spark holds anywhere. */
  def blocks(): Long = {
    val (held, n) = SqlMetricsAccess.broadcastBlocks(ids.contains(_))
    ids.removeIf(!held.contains(_))
    n
  }

  /** The context is gone. */
  def clear(): Unit = {
    byExecution.clear()
    over.clear()
    ids.clear()
  }
}

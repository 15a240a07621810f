package org.dynamicfilters.exchange

import java.util.{Collections, WeakHashMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.state.Executions

/** Filters that travel as Spark broadcasts. On the driver.
  *
  * Those that go with a scan belong to its plan, which may be executed again: when an execution ends executors drop their
  * copies, and the driver its own when the plan is gone (Spark's cleaner). Those that are sent to running scans
  * belong to the execution, and are destroyed with it.
  */
object FilterBroadcasts {
  // Broadcasts that may still have blocks. An entry goes when its broadcast is collected; Spark's ContextCleaner then removes
  // the blocks.
  private val made = Collections.synchronizedMap(new WeakHashMap[Broadcast[Array[Byte]], Unit])

  /** A filter that goes with a scan of this execution.
    *
    * @param executionId
    *   None where there is none
    */
  def ofScan(sc: SparkContext, executionId: Option[Long], bytes: Array[Byte]): Broadcast[Array[Byte]] = {
    val b = ofExecution(sc, bytes)
    executionId.foreach { id =>
      val held: AutoCloseable = () => quietly(b)(_.unpersist())
      if (Executions.instance.attach(id, b)(held).isEmpty) held.close()
    }
    b
  }

  /** A filter for scans that run; whoever makes it destroys it. */
  def ofExecution(sc: SparkContext, bytes: Array[Byte]): Broadcast[Array[Byte]] = {
    val b = sc.broadcast(bytes)
    made.put(b, ())
    b
  }

  /** For those of [[ofExecution]]. Who is fetching it just now fails to, and goes on without: its query has ended. */
  def destroy(b: Broadcast[Array[Byte]]): Unit = quietly(b) { x =>
    x.destroy()
    made.remove(x)
  }

  /** Number of known broadcasts, for tests. */
  private[exchange] def known: Int = made.size

  // The context may be stopped.
  private def quietly(b: Broadcast[Array[Byte]])(f: Broadcast[Array[Byte]] => Unit): Unit =
    try f(b)
    catch { case NonFatal(_) => }

  /** Blocks of filters that Spark holds anywhere; None if Spark does not tell. */
  def blocks(): Option[Long] = {
    val ids = made.synchronized(made.keySet.asScala.iterator.map(_.id).toSet)
    SparkAccess.broadcastBlocks(ids)
  }

  /** The context is gone. */
  def clear(): Unit =
    made.clear()
}

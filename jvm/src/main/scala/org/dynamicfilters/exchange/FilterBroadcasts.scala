package org.dynamicfilters.exchange

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.concurrent.ConcurrentHashMap

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
  // What was made and may still have blocks somewhere. Spark's cleaner drops those of a broadcast that is gone.
  private val made = new ConcurrentHashMap[Long, Made]()
  private val gone = new ReferenceQueue[Broadcast[Array[Byte]]]

  private final class Made(b: Broadcast[Array[Byte]]) extends WeakReference[Broadcast[Array[Byte]]](b, gone) {
    val id: Long = b.id
  }

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
    Iterator.continually(gone.poll()).takeWhile(_ != null).foreach { case m: Made => made.remove(m.id); case _ => }
    val b = sc.broadcast(bytes)
    made.put(b.id, new Made(b))
    b
  }

  /** For those of [[ofExecution]]. Who is fetching it just now fails to, and goes on without: its query has ended. */
  def destroy(b: Broadcast[Array[Byte]]): Unit = quietly(b) { x =>
    x.destroy()
    made.remove(x.id)
  }

  /** How many it keeps an eye on; for tests. */
  private[exchange] def known: Int = made.size

  // The context may be stopped.
  private def quietly(b: Broadcast[Array[Byte]])(f: Broadcast[Array[Byte]] => Unit): Unit =
    try f(b)
    catch { case NonFatal(_) => }

  /** Blocks of filters that Spark holds anywhere. */
  def blocks(): Long = {
    val (held, n) = SparkAccess.broadcastBlocks(made.containsKey(_))
    made.keySet.removeIf(!held.contains(_))
    n
  }

  /** The context is gone. */
  def clear(): Unit =
    made.clear()
}

package org.dynamicfilters.exchange

import java.util.{Collections, WeakHashMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.state.Executions

/** Spark broadcasts of the join filters that travel with scans, on the driver. User filters have their own.
  *
  * Such a filter belongs to the scan's plan, which may be executed again: executors drop their copies when an execution
  * ends, and Spark's cleaner drops the driver's copy when the plan is gone.
  */
object FilterBroadcasts {
  // Broadcasts that may still have blocks. When a broadcast is collected, its entry goes, and Spark's ContextCleaner
  // removes the blocks.
  private val made = Collections.synchronizedMap(new WeakHashMap[Broadcast[Array[Byte]], Unit])

  /** @param executionId executors drop their copies when this execution ends; None where there is none */
  def apply(sc: SparkContext, executionId: Option[Long], bytes: Array[Byte]): Broadcast[Array[Byte]] = {
    val b = sc.broadcast(bytes)
    made.put(b, ())
    executionId.foreach { id =>
      val held: AutoCloseable = () =>
        try b.unpersist()
        catch { case NonFatal(_) => } // The context is stopped.
      if (Executions.instance.attach(id, b)(held).isEmpty) held.close()
    }
    b
  }

  /** Number of known broadcasts, for tests. */
  private[exchange] def known: Int = made.size

  /** Number of blocks of filters in the whole application; None if Spark does not know. */
  def blocks(): Option[Long] = {
    val ids = made.synchronized(made.keySet.asScala.iterator.map(_.id).toSet)
    SparkAccess.broadcastBlocks(ids)
  }

  /** The application has ended. */
  def clear(): Unit = made.clear()
}

package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** Which scans of join filters run, by their RDDs: a filter that comes after all of them is of no use to anybody. On the
  * driver.
  */
object RunningScans {
  private final case class Scan(executionId: Long, filters: Seq[JoinFilterState])
  private val byRdd = new ConcurrentHashMap[Int, Scan]()
  // Of a query that is cancelled, threads that plan its stages may go on for a while.
  private val over = new EndedExecutions

  def started(executionId: Long, rdd: Int, filters: Seq[JoinFilterState]): Unit = if (filters.nonEmpty) {
    byRdd.put(rdd, Scan(executionId, filters))
    filters.foreach(_.scanStarted(rdd))
    if (over.contains(executionId)) ended(rdd)
  }

  /** A stage with this RDD has ended. */
  def ended(rdd: Int): Unit = {
    val scan = byRdd.remove(rdd)
    if (scan != null) scan.filters.foreach(_.scanEnded(rdd))
  }

  /** Forgets scans whose stages never ran. */
  def executionEnded(id: Long): Unit = {
    over.add(id)
    byRdd.asScala.foreach { case (rdd, scan) => if (scan.executionId == id) ended(rdd) }
  }

  /** How many there are; for tests of the life cycle. */
  def live: Int = byRdd.size
  def clear(): Unit = {
    byRdd.clear()
    over.clear()
  }
}
